#include "lessons/predict/boxes.h"

#include <cjson/cJSON.h>
#include <ctype.h>
#include <glob.h>
#include <math.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/text.h"
#include "io/file.h"

enum { MOST = 1 << 18 }; /* bytes of a predict.json, and of a README */

/* ---- numbers ---- */

void gs_box_number(double x, char *text, size_t size) {
    if (fabs(x) < 1e15 && x == floor(x))
        snprintf(text, size, "%.0f", x);
    else
        snprintf(text, size, fabs(x) >= 1000 ? "%.0f" : "%.3g", x);
}

/* 1,250 and 1250 and 1250 rounds, 12.5 and 12.5 %. */
static bool number_of(const char *text, const char *unit, double *x) {
    char digits[64];
    size_t used = 0;
    const char *from = text;
    for (; *from && (isdigit((unsigned char)*from) || strchr("+-.,eE", *from)); from++) {
        if (*from == ',') continue;
        if (used == sizeof digits - 1) return false;
        digits[used++] = *from;
    }
    digits[used] = '\0';
    char *end;
    *x = strtod(digits, &end);
    if (used == 0 || *end != '\0' || !isfinite(*x)) return false;
    from += strspn(from, " ");
    return *from == '\0' || (*unit && strcasecmp(from, unit) == 0);
}

static void list_choices(const gs_box *box, char *list, size_t size) {
    *list = '\0';
    for (int i = 0; i < box->choice_count; i++)
        gs_append(list, size, "%s%s",
                  i == 0                      ? ""
                  : i + 1 < box->choice_count ? ", "
                                              : " or ",
                  box->choices[i]);
}

gs_status gs_box_answer(const gs_box *box, const char *text, char *answer, size_t size) {
    char word[200], wanted[400];
    text += strspn(text, " \t");
    size_t length = strcspn(text, "\r\n");
    while (length > 0 && strchr(" \t", text[length - 1])) length--;
    snprintf(word, sizeof word, "%.*s", (int)(length < sizeof word ? length : sizeof word - 1), text);
    if (box->choice_count == 0) {
        double x;
        if (!number_of(word, box->unit, &x))
            return gs_fail(GS_E_USAGE, "%s: '%s' is not a number%s%s", box->id, gs_printable(word),
                           *box->unit ? " of " : "", box->unit);
        gs_box_number(x, answer, size);
        return GS_OK;
    }
    for (int i = 0; i < box->choice_count; i++)
        if (strcasecmp(word, box->choices[i]) == 0) {
            snprintf(answer, size, "%s", box->choices[i]);
            return GS_OK;
        }
    list_choices(box, wanted, sizeof wanted);
    return gs_fail(GS_E_USAGE, "%s: '%s' is not one of the answers; wanted %s", box->id, gs_printable(word),
                   wanted);
}

/* ---- the file ---- */

static const char *text_of(const cJSON *o, const char *name) {
    const cJSON *t = cJSON_GetObjectItemCaseSensitive(o, name);
    return cJSON_IsString(t) ? t->valuestring : NULL;
}

static double number_in(const cJSON *o, const char *name, double otherwise) {
    const cJSON *n = cJSON_GetObjectItemCaseSensitive(o, name);
    return cJSON_IsNumber(n) ? n->valuedouble : otherwise;
}

static bool is_expression(const char *find) {
    regex_t r;
    if (!find || regcomp(&r, find, REG_EXTENDED | REG_NEWLINE) != 0) return false;
    bool has_group = r.re_nsub >= 1;
    regfree(&r);
    return has_group;
}

static bool read_runs(const cJSON *o, gs_box *box) {
    const cJSON *run;
    cJSON_ArrayForEach(run, cJSON_GetObjectItemCaseSensitive(o, "runs")) {
        if (box->run_count == GS_BOX_RUNS) return false;
        const char *command = text_of(run, "command"), *find = text_of(run, "find");
        if (!command || !is_expression(find)) return false;
        box->runs[box->run_count].command = command;
        box->runs[box->run_count++].find = find;
    }
    return box->run_count == (box->as == GS_BOX_NUMBER || box->as == GS_BOX_WORD ? 1 : 2);
}

static bool read_choices(const cJSON *o, gs_box *box) {
    const cJSON *choice;
    cJSON_ArrayForEach(choice, cJSON_GetObjectItemCaseSensitive(o, "choices")) {
        if (box->choice_count == GS_BOX_CHOICES || !cJSON_IsString(choice)) return false;
        box->choices[box->choice_count++] = choice->valuestring;
    }
    const int wanted[] = {[GS_BOX_ORDER] = 3, [GS_BOX_SAME] = 2};
    switch (box->as) {
    case GS_BOX_NUMBER:
    case GS_BOX_RATIO:
        return box->choice_count == 0;
    case GS_BOX_WORD:
        return box->choice_count >= 2;
    default:
        return box->choice_count == wanted[box->as];
    }
}

static const char *read_box(const cJSON *o, gs_box *box) {
    static const char *const kinds[] = {"number", "ratio", "order", "word", "same"};
    const char *as = text_of(o, "as");
    *box = (gs_box){.id = text_of(o, "id"),
                    .question = text_of(o, "question"),
                    .because = text_of(o, "because"),
                    .first = text_of(o, "first"),
                    .unit = text_of(o, "unit") ? text_of(o, "unit") : "",
                    .near = number_in(o, "near", 0),
                    .scale = number_in(o, "scale", 1)};
    if (!box->id || !box->question || !box->because) return "id, question or because is missing";
    int kind = 0, count = (int)(sizeof kinds / sizeof *kinds);
    while (kind < count && (!as || strcmp(as, kinds[kind]) != 0)) kind++;
    if (kind == count) return "\"as\" is not number, ratio, order, word or same";
    box->as = (gs_box_as)kind;
    if (!read_choices(o, box)) return "the choices do not fit \"as\"";
    if (!read_runs(o, box))
        return "the runs do not fit \"as\", or lack a command or an expression with a group";
    return NULL;
}

static gs_status read_all(gs_boxes *b, const char *path, const char *text) {
    const cJSON *o;
    b->json = cJSON_Parse(text);
    if (!cJSON_IsArray((cJSON *)b->json)) return gs_fail(GS_E_FORMAT, "%s is not a JSON array", path);
    cJSON_ArrayForEach(o, (cJSON *)b->json) {
        if (b->count == GS_BOXES_MOST)
            return gs_fail(GS_E_FORMAT, "%s: more than %d boxes", path, GS_BOXES_MOST);
        const char *wrong = read_box(o, &b->list[b->count]);
        if (wrong)
            return gs_fail(GS_E_FORMAT, "%s: box %d (%s): %s", path, b->count + 1,
                           b->list[b->count].id ? b->list[b->count].id : "no id", wrong);
        if (gs_boxes_find(b, b->list[b->count].id))
            return gs_fail(GS_E_FORMAT, "%s: two boxes are called %s", path, b->list[b->count].id);
        b->count++;
    }
    return GS_OK;
}

static gs_status find_folder(const char *tree, int number, gs_boxes *b) {
    char pattern[PATH_MAX];
    glob_t found = {0};
    snprintf(pattern, sizeof pattern, "%s/lessons/%02d-*/README.md", tree, number);
    bool is = number >= 0 && number <= 99 && glob(pattern, 0, NULL, &found) == 0;
    if (is) {
        snprintf(b->lesson, sizeof b->lesson, "%02u", (unsigned)number % 100);
        snprintf(b->folder, sizeof b->folder, "%s", found.gl_pathv[0] + strlen(tree) + 1);
        *strrchr(b->folder, '/') = '\0';
    }
    globfree(&found);
    return is ? GS_OK : gs_fail(GS_E_USAGE, "there is no lesson %d; gradsum lesson lists them", number);
}

static gs_status read_file(const char *tree, const gs_boxes *b, const char *name, char **text) {
    char path[2 * PATH_MAX];
    size_t bytes;
    snprintf(path, sizeof path, "%s/%s/%s", tree, b->folder, name);
    return gs_file_read(path, MOST, text, &bytes);
}

gs_status gs_boxes_read(const char *tree, int number, gs_boxes *b) {
    char *text, path[PATH_MAX + 20];
    *b = (gs_boxes){.count = 0};
    GS_TRY(find_folder(tree, number, b));
    GS_TRY(read_file(tree, b, "README.md", &text));
    int from = (int)strspn(text, "# ");
    snprintf(b->title, sizeof b->title, "%.*s", (int)strcspn(text + from, "\n"), text + from);
    free(text);
    if (read_file(tree, b, "predict.json", &text) != GS_OK) return GS_OK;
    snprintf(path, sizeof path, "%s/predict.json", b->folder);
    gs_status status = read_all(b, path, text);
    free(text);
    if (status != GS_OK) gs_boxes_free(b);
    return status;
}

void gs_boxes_free(gs_boxes *b) {
    cJSON_Delete(b->json);
    b->json = NULL;
    b->count = 0;
}

const gs_box *gs_boxes_find(const gs_boxes *b, const char *id) {
    for (int i = 0; i < b->count; i++)
        if (strcasecmp(b->list[i].id, id) == 0) return &b->list[i];
    return NULL;
}
