/* gradsum lesson: predictions before an experiment, and what came out. */
#include "cli/cli.h"
#include "lessons/grade/tree.h"
#include "lessons/predict/boxes.h"
#include "lessons/predict/kept.h"
#include "lessons/predict/outcome.h"
#include "core/text.h"
#include "io/json.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct lesson {
    gs_tree tree;
    gs_boxes boxes;
    gs_ran ran;
    const char *answers; /* of --answer, or NULL */
    bool show, forget, export;
} lesson;

enum { LESSONS_MOST = 100 };

/* ---- print ---- */

static const char *with_unit(const gs_box *box, const char *answer, char text[120]) {
    snprintf(text, 120, "%s%s%s", *answer ? answer : "-", *answer && *box->unit ? " " : "",
             *answer ? box->unit : "");
    return text;
}

static void print_question(const gs_box *box) {
    printf("\n%-4s ", box->id);
    gs_print_wrapped(5, box->question);
}

static void print_compared(const gs_box *box, const gs_kept *k) {
    char predicted[120], outcome[120], sentence[300], all[1200];
    printf("\n%-4s predicted  %s\n", box->id, with_unit(box, k->prediction, predicted));
    printf("     outcome    %s\n     ", with_unit(box, k->outcome, outcome));
    gs_outcome_compare(box, k->prediction, k->outcome, sentence, sizeof sentence);
    snprintf(all, sizeof all, "%s %s", sentence, box->because);
    gs_print_wrapped(5, all);
    fflush(stdout);
}

static gs_status print_all(const lesson *l) {
    int predicted = 0, right = 0;
    gs_kept k;
    char p[120], o[120];
    printf("%s\n\n     %-32s%-32s\n", l->boxes.title, "predicted", "outcome");
    for (int i = 0; i < l->boxes.count; i++) {
        const gs_box *box = &l->boxes.list[i];
        GS_TRY(gs_kept_get(l->boxes.lesson, box->id, &k));
        bool is = *k.outcome && gs_outcome_right(box, k.prediction, k.outcome);
        printf("%-4s %-32s%-32s%s\n", box->id, with_unit(box, k.prediction, p), with_unit(box, k.outcome, o),
               is ? "right" : "");
        predicted += *k.prediction != '\0';
        right += is;
    }
    printf("\n%d of %d predicted, %d right\n", predicted, l->boxes.count, right);
    return GS_OK;
}

static gs_status export_one(const gs_boxes *b) {
    cJSON *answers = cJSON_CreateArray();
    gs_status status = GS_OK;
    for (int i = 0; status == GS_OK && i < b->count; i++) {
        const gs_box *box = &b->list[i];
        gs_kept k;
        status = gs_kept_get(b->lesson, box->id, &k);
        if (status != GS_OK || !*k.prediction) continue;
        cJSON *o = GS_JSON_OBJECT(GS_FIELD("id", box->id), GS_FIELD("prediction", (const char *)k.prediction),
                                  GS_FIELD("outcome", *k.outcome ? (const char *)k.outcome : NULL),
                                  GS_FIELD("unit", box->unit), GS_FIELD("when", (const char *)k.when));
        if (*k.outcome) GS_JSON_ADD(o, GS_FIELD("right", gs_outcome_right(box, k.prediction, k.outcome)));
        cJSON_AddItemToArray(answers, o);
    }
    cJSON *o = GS_JSON_OBJECT(GS_FIELD("lesson", b->lesson), GS_FIELD("boxes", b->count),
                              GS_FIELD("answers", answers));
    char *text = status == GS_OK ? gs_json_to_text(o, false) : NULL;
    if (text) printf("%s\n", text);
    cJSON_free(text);
    cJSON_Delete(o);
    return status;
}

/* ---- one box: predict, run, compare ---- */

static gs_status keep_prediction(const lesson *l, const gs_box *box, const char *answer) {
    gs_kept k = {.prediction = ""};
    snprintf(k.prediction, sizeof k.prediction, "%s", answer);
    return gs_kept_put(l->boxes.lesson, box->id, &k);
}

/* A line from the terminal, until it is an answer. *answered false: it was empty, or there are no more. */
static gs_status ask(const gs_box *box, char *answer, size_t size, bool *answered, bool *more) {
    char line[400];
    for (;;) {
        printf("     prediction");
        if (box->choice_count == 0 && *box->unit) printf(" (%s)", box->unit);
        for (int i = 0; i < box->choice_count; i++) printf("%s%s", i ? " / " : " (", box->choices[i]);
        printf("%s: ", box->choice_count ? ")" : "");
        fflush(stdout);
        *answered = false;
        *more = fgets(line, sizeof line, stdin) != NULL;
        if (!*more) printf("\n");
        if (!*more || line[strspn(line, " \t\r\n")] == '\0') return GS_OK;
        gs_status status = gs_box_answer(box, line, answer, size);
        *answered = status == GS_OK;
        if (status != GS_E_USAGE) return status;
        printf("     %s\n", gs_message());
    }
}

static gs_status run_box(lesson *l, const gs_box *box, gs_kept *k) {
    char program[2 * PATH_MAX + 20];
    snprintf(program, sizeof program, "%s/%s/gradsum", l->tree.path, l->tree.build);
    GS_TRY(gs_outcome_run(box, l->tree.path, program, &l->ran, k->outcome, sizeof k->outcome));
    GS_TRY(gs_kept_put(l->boxes.lesson, box->id, k));
    print_compared(box, k);
    return GS_OK;
}

/* ---- --answer ---- */

/* The next "ID=VALUE" of a list; a comma is the end of one where another ID= follows. */
static bool next_answer(const char **from, char *id, size_t id_size, char *value, size_t value_size) {
    const char *at = *from, *end;
    size_t n = strcspn(at, "=");
    if (*at == '\0') return false;
    snprintf(id, id_size, "%.*s", (int)n, at);
    at += n + (at[n] == '=');
    for (end = at; *end; end++) {
        if (*end != ',') continue;
        size_t word = strspn(end + 1, "0123456789abcdefghijklmnopqrstuvwxyz");
        if (word > 0 && end[1 + word] == '=') break;
    }
    snprintf(value, value_size, "%.*s", (int)(end - at), at);
    *from = end + (*end == ',');
    return true;
}

/* All are checked before one is kept. */
static gs_status take_answers(const lesson *l, bool keep) {
    char id[64], value[200], answer[GS_KEPT_TEXT];
    for (const char *from = l->answers; next_answer(&from, id, sizeof id, value, sizeof value);) {
        gs_kept k;
        const gs_box *box = gs_boxes_find(&l->boxes, id);
        if (!box)
            return gs_fail(GS_E_USAGE, "--answer: lesson %d has no question '%s'; wanted %s=VALUE%s",
                           atoi(l->boxes.lesson), gs_printable(id), l->boxes.list[0].id,
                           l->boxes.count > 1 ? ", or another of its questions" : "");
        GS_TRY(gs_box_answer(box, value, answer, sizeof answer));
        GS_TRY(gs_kept_get(l->boxes.lesson, box->id, &k));
        if (*k.outcome)
            return gs_fail(GS_E_USAGE,
                           "%s: you have seen the outcome; --forget lets you predict lesson %d again",
                           box->id, atoi(l->boxes.lesson));
        if (keep) GS_TRY(keep_prediction(l, box, answer));
    }
    return GS_OK;
}

/* ---- a lesson ---- */

/* What becomes of the boxes of a lesson on the way through them. */
typedef struct way {
    bool more; /* somebody is there to answer */
    bool asked[GS_BOXES_MOST];
    gs_kept kept[GS_BOXES_MOST];
} way;

static gs_status ask_box(const lesson *l, int i, way *w) {
    const gs_box *box = &l->boxes.list[i];
    gs_kept *k = &w->kept[i];
    bool answered = false;
    if (w->asked[i]) return GS_OK;
    w->asked[i] = true;
    GS_TRY(gs_kept_get(l->boxes.lesson, box->id, k));
    print_question(box);
    if (!*k->prediction && w->more)
        GS_TRY(ask(box, k->prediction, sizeof k->prediction, &answered, &w->more));
    return answered ? keep_prediction(l, box, k->prediction) : GS_OK;
}

/* One output may answer several boxes, so all of these are asked before it is shown. */
static gs_status ask_those_with(const lesson *l, int i, way *w) {
    for (int other = 0; other < l->boxes.count; other++)
        if (gs_outcome_shares(&l->boxes.list[i], &l->boxes.list[other])) GS_TRY(ask_box(l, other, w));
    return GS_OK;
}

static gs_status go_through(lesson *l) {
    bool terminal = isatty(STDIN_FILENO) && !l->answers;
    way w = {.more = terminal};
    int open = 0;
    printf("%s\nPredict, then see what comes out. Enter alone leaves a question for later.\n",
           l->boxes.title);
    for (int i = 0; i < l->boxes.count; i++) {
        const gs_box *box = &l->boxes.list[i];
        gs_kept *k = &w.kept[i];
        GS_TRY(ask_box(l, i, &w));
        if (*k->outcome) {
            print_compared(box, k);
        } else if (*k->prediction) {
            GS_TRY(ask_those_with(l, i, &w));
            GS_TRY(run_box(l, box, k));
        } else {
            open++;
        }
    }
    if (open > 0 && !terminal)
        printf("\n%d not predicted yet: gradsum lesson %d asks in a terminal;\n--answer %s=VALUE answers "
               "without one\n",
               open, atoi(l->boxes.lesson), l->boxes.list[0].id);
    return GS_OK;
}

static gs_status one_lesson(lesson *l, int number) {
    GS_TRY(gs_boxes_read(l->tree.path, number, &l->boxes));
    gs_status status = GS_OK;
    if (l->boxes.count == 0)
        printf("lesson %d has nothing to predict\n", number);
    else if (l->forget)
        status = gs_kept_forget(l->boxes.lesson);
    else if (l->export)
        status = export_one(&l->boxes);
    else if (l->show)
        status = print_all(l);
    else {
        if (l->answers) status = take_answers(l, false);
        if (status == GS_OK && l->answers) status = take_answers(l, true);
        if (status == GS_OK) status = go_through(l);
        gs_ran_free(&l->ran);
    }
    gs_boxes_free(&l->boxes);
    return status;
}

/* What cannot be read does not count: gradsum lesson N --show says why. */
static int predicted_of(const gs_boxes *b) {
    int predicted = 0;
    gs_kept k;
    for (int i = 0; i < b->count; i++)
        predicted += gs_kept_get(b->lesson, b->list[i].id, &k) == GS_OK && *k.prediction;
    return predicted;
}

/* Without a number: how much of it is predicted; with --export, what. Of every lesson. */
static gs_status all_lessons(lesson *l) {
    for (int number = 0; number < LESSONS_MOST; number++) {
        gs_status status = gs_boxes_read(l->tree.path, number, &l->boxes);
        if (status == GS_E_USAGE) continue; /* numbers may be left out */
        GS_TRY(status);
        if (l->export && l->boxes.count > 0) status = export_one(&l->boxes);
        if (!l->export)
            printf("%4d  %d of %d predicted   %s\n", number, predicted_of(&l->boxes), l->boxes.count,
                   l->boxes.title);
        gs_boxes_free(&l->boxes);
        GS_TRY(status);
    }
    return GS_OK;
}

static gs_status run(lesson *l, int words, char **argv) {
    char *end;
    if (words > 1) return gs_fail(GS_E_USAGE, "wanted the number of one lesson, got %d words", words);
    if (l->show + l->forget + l->export + (l->answers != NULL) > 1)
        return gs_fail(GS_E_USAGE, "--answer, --show, --forget and --export exclude each other");
    if (words == 0 && (l->show || l->forget || l->answers))
        return gs_fail(GS_E_USAGE, "the number of a lesson is required, as in gradsum lesson 7 --show");
    GS_TRY(gs_tree_find("a lesson", &l->tree));
    if (words == 0) return all_lessons(l);
    long number = strtol(argv[1], &end, 10);
    if (!isdigit((unsigned char)*argv[1]) || *end != '\0' || number >= LESSONS_MOST)
        return gs_fail(GS_E_USAGE, "'%s' is not the number of a lesson; gradsum lesson lists them",
                       gs_printable(argv[1]));
    return one_lesson(l, (int)number);
}

/* The second of two would replace the first without a word. */
static bool answers_twice(int argc, char **argv) {
    int times = 0;
    for (int i = 1; i < argc; i++)
        times += strcmp(argv[i], "--answer") == 0 || strncmp(argv[i], "--answer=", 9) == 0;
    return times > 1;
}

int gs_cmd_lesson(int argc, char **argv) {
    lesson l = {.answers = NULL};
    int words, exit_status;
    const gs_option options[] = {
        {"answer", GS_OPTION_TEXT, &l.answers, 0, 0, "ANSWERS",
         "predict without being asked: 5a=VALUE,5b=VALUE"},
        {"show", GS_OPTION_FLAG, &l.show, 0, 0, NULL,
         "what you predicted and what came out, and run nothing"},
        {"forget", GS_OPTION_FLAG, &l.forget, 0, 0, NULL, "remove your predictions for this lesson"},
        {"export", GS_OPTION_FLAG, &l.export, 0, 0, NULL, "one line of JSON per lesson, for a teacher"},
        {0},
    };
    const gs_help help = {
        "lesson [N] [options]",
        "Ask for a prediction at each box \"Predict before you run\" of lesson N, keep it,\n"
        "run the experiment, and show both side by side. Predictions are kept in\n"
        "$XDG_DATA_HOME/gradsum, else in ~/.local/share/gradsum. Without N: list the\n"
        "lessons.",
        "gradsum lesson 7", NULL};
    bool twice = answers_twice(argc, argv);
    if (!gs_options_taken(options, &help, argc, argv, &words, &exit_status)) return exit_status;
    gs_status status =
        twice
            ? gs_fail(GS_E_USAGE, "--answer is given twice; all answers go into one, as in 5a=VALUE,5b=VALUE")
            : run(&l, words, argv);
    return gs_exit_status("lesson", status);
}
