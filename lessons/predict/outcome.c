#include "lessons/predict/outcome.h"

#include <math.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/text.h"
#include "lessons/grade/command.h"

/* ---- find ---- */

static gs_status find_text(const gs_box *box, int run, const char *output, char *text, size_t size) {
    regex_t r;
    regmatch_t at[2];
    if (regcomp(&r, box->runs[run].find, REG_EXTENDED | REG_NEWLINE) != 0)
        return gs_fail(GS_E_FORMAT, "%s: not an expression: %s", box->id, box->runs[run].find);
    bool found = regexec(&r, output, 2, at, 0) == 0 && at[1].rm_so >= 0;
    regfree(&r);
    if (!found)
        return gs_fail(GS_E_FORMAT, "%s: the output of '%s' has nothing like '%s'", box->id,
                       box->runs[run].command, box->runs[run].find);
    snprintf(text, size, "%.*s", (int)(at[1].rm_eo - at[1].rm_so), output + at[1].rm_so);
    return GS_OK;
}

/* "2,143,288" is a number here too. */
static double number(const char *text) {
    char digits[64];
    size_t used = 0;
    for (; *text && used < sizeof digits - 1; text++)
        if (*text != ',') digits[used++] = *text;
    digits[used] = '\0';
    return strtod(digits, NULL);
}

static bool is_near(const gs_box *box, double x, double outcome) {
    return fabs(x - outcome) <= box->near * fabs(outcome) * (1 + 1e-9);
}

gs_status gs_outcome_find(const gs_box *box, const char *const outputs[GS_BOX_RUNS], char *outcome,
                          size_t size) {
    char found[GS_BOX_RUNS][200] = {"", ""};
    for (int i = 0; i < box->run_count; i++) GS_TRY(find_text(box, i, outputs[i], found[i], sizeof found[i]));
    double first = number(found[0]) * box->scale, second = number(found[1]) * box->scale;
    switch (box->as) {
    case GS_BOX_NUMBER:
        gs_box_number(first, outcome, size);
        break;
    case GS_BOX_RATIO:
        if (first == 0) return gs_fail(GS_E_FORMAT, "%s: '%s' gave 0", box->id, box->runs[0].command);
        gs_box_number(second / first, outcome, size);
        break;
    case GS_BOX_ORDER:
        snprintf(outcome, size, "%s", box->choices[is_near(box, second, first) ? 1 : second < first ? 0 : 2]);
        break;
    case GS_BOX_WORD:
        snprintf(outcome, size, "%s", found[0]);
        break;
    case GS_BOX_SAME:
        snprintf(outcome, size, "%s", box->choices[strcmp(found[0], found[1]) != 0]);
        break;
    }
    return GS_OK;
}

/* ---- run ---- */

enum { WORDS = 64, SHOWN = 40 };

/* Of a long output its last lines. */
static void show(const char *output) {
    int lines = 0, left_out = 0;
    for (const char *c = output; *c; c++) lines += *c == '\n';
    for (; lines > SHOWN; lines--, left_out++) output = strchr(output, '\n') + 1;
    if (left_out > 0) printf("  (%d lines)\n", left_out);
    for (size_t n; *output; output += n + (output[n] == '\n')) {
        n = strcspn(output, "\n");
        printf("  %.*s\n", (int)n, output);
    }
    fflush(stdout);
}

static gs_status run_words(const gs_box *box, const char *tree, const char *const *words, char *output) {
    bool worked = false;
    GS_TRY(gs_command_run(tree, words, output, GS_OUTPUT_MOST, &worked));
    if (worked) return GS_OK;
    show(output);
    return gs_fail(GS_E_FILE, "%s: '%s ...' failed; your prediction is kept", box->id, words[0]);
}

/* Cuts a command at its spaces; not within '...', which loses its marks. */
static int cut(char *line, const char **words) {
    int count = 0;
    for (char *at = line + strspn(line, " "); *at && count < WORDS; at += strspn(at, " ")) {
        const bool quoted = *at == '\'';
        words[count++] = at += quoted;
        at += strcspn(at, quoted ? "'" : " ");
        if (*at) *at++ = '\0';
    }
    return count;
}

/* A program of the lesson, build/lessons/05/experiment, is built first. */
static gs_status run_command(const gs_box *box, const char *command, const char *tree, const char *program,
                             char *output) {
    char line[1000];
    const char *words[WORDS + 1] = {NULL};
    snprintf(line, sizeof line, "%s", command);
    if (cut(line, words) == 0) return gs_fail(GS_E_FORMAT, "%s: an empty command", box->id);
    printf("\n$ %s\n", command);
    fflush(stdout);
    const char *const make[] = {"make", "--no-print-directory", "-s", words[0], NULL};
    if (strncmp(words[0], "build/lessons/", 14) == 0) GS_TRY(run_words(box, tree, make, output));
    if (strcmp(words[0], "gradsum") == 0) words[0] = program;
    GS_TRY(run_words(box, tree, words, output));
    show(output);
    return GS_OK;
}

void gs_ran_free(gs_ran *ran) {
    for (int i = 0; i < ran->count; i++) free(ran->output[i]);
    ran->count = 0;
}

/* What the command has printed before, or NULL. */
static const char *output_of(const gs_ran *ran, const char *command) {
    for (int i = 0; i < ran->count; i++)
        if (strcmp(ran->command[i], command) == 0) return ran->output[i];
    return NULL;
}

static gs_status run_and_keep(const gs_box *box, const char *command, const char *tree, const char *program,
                              gs_ran *ran, const char **output) {
    if (ran->count == GS_BOXES_MOST * GS_BOX_RUNS) gs_bug("%s: %d commands have run", box->id, ran->count);
    char *text = calloc(1, GS_OUTPUT_MOST);
    if (!text) return gs_fail(GS_E_MEMORY, "no memory for the output of the experiment");
    gs_status status = run_command(box, command, tree, program, text);
    if (status != GS_OK) {
        free(text);
        return status;
    }
    ran->command[ran->count] = command;
    *output = ran->output[ran->count++] = text;
    return GS_OK;
}

/* Before its own commands; nothing is looked for in its output. */
static gs_status run_first(const gs_box *box, const char *tree, const char *program) {
    char *text = calloc(1, GS_OUTPUT_MOST);
    if (!text) return gs_fail(GS_E_MEMORY, "no memory for the output of the experiment");
    gs_status status = run_command(box, box->first, tree, program, text);
    free(text);
    return status;
}

gs_status gs_outcome_run(const gs_box *box, const char *tree, const char *program, gs_ran *ran, char *outcome,
                         size_t size) {
    const char *outputs[GS_BOX_RUNS] = {NULL};
    if (box->first) GS_TRY(run_first(box, tree, program));
    for (int i = 0; i < box->run_count; i++) {
        /* whether a second run gives the same is what GS_BOX_SAME asks */
        outputs[i] = box->as == GS_BOX_SAME ? NULL : output_of(ran, box->runs[i].command);
        if (!outputs[i]) GS_TRY(run_and_keep(box, box->runs[i].command, tree, program, ran, &outputs[i]));
    }
    return gs_outcome_find(box, outputs, outcome, size);
}

bool gs_outcome_shares(const gs_box *a, const gs_box *b) {
    for (int i = 0; i < a->run_count; i++)
        for (int k = 0; k < b->run_count; k++)
            if (strcmp(a->runs[i].command, b->runs[k].command) == 0) return true;
    return false;
}

/* ---- compare ---- */

bool gs_outcome_right(const gs_box *box, const char *prediction, const char *outcome) {
    if (box->choice_count > 0) return strcasecmp(prediction, outcome) == 0;
    return is_near(box, number(prediction), number(outcome));
}

void gs_outcome_compare(const gs_box *box, const char *prediction, const char *outcome, char *text,
                        size_t size) {
    double p = number(prediction), o = number(outcome);
    char amount[32];
    if (gs_outcome_right(box, prediction, outcome) && (box->choice_count > 0 || p == o))
        snprintf(text, size, "You were right.");
    else if (gs_outcome_right(box, prediction, outcome))
        snprintf(text, size, "You were right, within %.0f %%.", ceil(100 * fabs(p - o) / fabs(o)));
    else if (box->choice_count > 0)
        snprintf(text, size, "You expected another answer.");
    else if (p > 0 && o > 0 && (p >= 2 * o || o >= 2 * p)) {
        gs_box_number(p > o ? round(10 * p / o) / 10 : round(10 * o / p) / 10, amount, sizeof amount);
        snprintf(text, size,
                 p > o ? "Your prediction is %s times the outcome."
                       : "The outcome is %s times your prediction.",
                 amount);
    } else {
        /* "too low by 2 times" and "by 31 %" would say other things */
        bool pure = strcmp(box->unit, "times") == 0 || !*box->unit;
        const char *unit = strcmp(box->unit, "%") == 0 ? "percentage points" : pure ? "" : box->unit;
        gs_box_number(fabs(p - o), amount, sizeof amount);
        snprintf(text, size, "Your prediction is too %s by %s%s%s.", p > o ? "high" : "low", amount,
                 *unit ? " " : "", unit);
    }
}
