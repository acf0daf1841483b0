/* gradsum grade: turns a teacher's folder of hand-ins into marks for a spreadsheet or a learning platform.
 *
 * hand_ins.c finds the hand-ins, graders.c grades them with the scripts of `make lab-NN`, and format_*.c writes the
 * marks.
 */
#include "cli/cli.h"
#include "lessons/grade/board.h"
#include "lessons/grade/output.h"
#include "core/text.h"
#include "lessons/grade/graders.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

typedef struct wishes {
    const char *labs, *format, *out; /* option values; NULL: not given */
    bool json, trust, board;
    uint64_t seed; /* for the cases; 0: draw a random seed */
} wishes;

static gs_status find_all(int words, char **argv, gs_hand_ins *all) {
    char path[PATH_MAX];
    if (words == 0) return gs_fail(GS_E_USAGE, "a folder of hand-ins is required; --help says what it holds");
    for (int i = 1; i <= words; i++) {
        if (!realpath(argv[i], path))
            return gs_fail(GS_E_FILE, "cannot read the folder %s: %s", argv[i], strerror(errno));
        GS_TRY(gs_hand_ins_find(path, all));
    }
    return GS_OK;
}

static gs_status find_format(const wishes *w, const gs_format **format) {
    *format = gs_formats[0];
    if (w->json) *format = &gs_format_json;
    if (w->format) GS_TRY(gs_format_find(w->format, format));
    if (w->json && *format != &gs_format_json)
        return gs_fail(GS_E_USAGE, "--json and --format %s are both given; use only one of them", w->format);
    return GS_OK;
}

/* ---- the marks of one student ---- */

/* Returns the labs that were requested, or else all labs that any student has handed in. */
static gs_labs labs_for_all(const gs_labs *asked, const gs_labs *known, const gs_hand_ins *all) {
    gs_labs labs = {0};
    if (asked) return *asked;
    for (int i = 0; i < all->count; i++) {
        int lab = *all->list[i].lab ? atoi(all->list[i].lab) : -1;
        if (lab >= 0 && known->has[lab]) labs.has[lab] = true;
    }
    return labs;
}

/* The hand-ins of one student. */
typedef struct student {
    gs_graders *graders;
    const gs_hand_in *first;
    int count, before, of; /* numbers of hand-ins: this student's, those before, all */
    gs_activity *work;
    cJSON *marks;
} student;

static void add_mark(const student *s, cJSON *mark) {
    cJSON *all = cJSON_CreateObject(), *item;
    char name[4 * 255 + 1]; /* the student's name on one line, shown before the result */
    cJSON_AddStringToObject(all, "student", gs_printable_into(name, sizeof name, s->first->student, ""));
    while ((item = mark->child))
        cJSON_AddItemToObject(all, item->string, cJSON_DetachItemViaPointer(mark, item));
    cJSON_Delete(mark);
    gs_mark_clean(all);
    cJSON_AddItemToArray(s->marks, all);
}

static gs_status add_graded(const student *s, const gs_hand_in *h) {
    cJSON *mark = NULL;
    GS_TRY(gs_graders_grade(s->graders, h, &mark));
    add_mark(s, mark);
    return GS_OK;
}

/* lab "": nobody has handed in anything, so there is no lab to name. */
static gs_status add_nothing(const student *s, const char *lab) {
    char problem[sizeof s->first->problem];
    cJSON *mark = NULL;
    const char *number = *lab ? lab : "NN";
    if (!*s->first->lab && *s->first->problem)
        snprintf(problem, sizeof problem, "%s", s->first->problem);
    else
        snprintf(problem, sizeof problem, "nothing handed in: wanted %s/lab.c or lab-%s.c%s%s", number,
                 number, *s->first->others ? "; found " : "", s->first->others);
    GS_TRY(gs_graders_no_points(s->graders, lab, problem, &mark));
    add_mark(s, mark);
    return GS_OK;
}

static gs_status add_lab(const student *s, int lab) {
    char number[12];
    const int marks = cJSON_GetArraySize(s->marks),
              done = s->before + (marks < s->count ? marks : s->count - 1);
    s->work->shown = 0; /* announce each grading, which may take a minute */
    gs_show_activity(s->work, (double)done / s->of, "hand-in %d of %d: lab %02d of %s", done + 1, s->of, lab,
                     gs_printable(s->first->student));
    for (int i = 0; i < s->count; i++)
        if (*s->first[i].lab && atoi(s->first[i].lab) == lab) return add_graded(s, &s->first[i]);
    snprintf(number, sizeof number, "%02d", lab);
    return add_nothing(s, number);
}

static gs_status add_all(const student *s, const gs_labs *labs, bool others) {
    for (int n = -1; (n = gs_labs_next(labs, n + 1)) >= 0;) GS_TRY(add_lab(s, n));
    for (int i = 0; others && i < s->count; i++) {
        const gs_hand_in *h = &s->first[i];
        if (*h->lab && !labs->has[atoi(h->lab)]) GS_TRY(add_graded(s, h));
    }
    return cJSON_GetArraySize(s->marks) > 0 ? GS_OK : add_nothing(s, "");
}

/* The marks of the student of hand-in *next, for each of `labs`, then any others. Moves *next to the next student. */
static gs_status student_marks(gs_graders *g, const gs_hand_ins *all, int *next, const gs_labs *labs,
                               bool others, gs_activity *work, cJSON **marks) {
    student s = {g, &all->list[*next], 0, *next, all->count, work, cJSON_CreateArray()};
    while (*next < all->count && all->list[*next].who == s.first->who) {
        s.count++;
        (*next)++;
    }
    *marks = s.marks;
    return add_all(&s, labs, others);
}

/* ---- all students ---- */

static gs_status grade_students(gs_graders *g, const gs_hand_ins *all, const wishes *w, gs_marks_output *o) {
    gs_activity work = {0};
    gs_board board = {0};
    gs_show_activity(NULL, 0, "building the graders, which takes about a minute the first time");
    GS_TRY(gs_graders_build(g));
    for (int i = 0; i < all->count;) {
        cJSON *marks = NULL;
        gs_status status = student_marks(g, all, &i, &o->labs, !w->labs, &work, &marks);
        gs_show_activity(NULL, 0, NULL);
        if (status == GS_OK) status = gs_marks_output_student(o, marks);
        if (w->board) gs_board_add(&board, marks);
        cJSON_Delete(marks);
        if (status != GS_OK) {
            cJSON_Delete(board.places);
            return status;
        }
    }
    if (w->board) gs_board_print(&board, stderr);
    return GS_OK;
}

/* Nobody must know the cases in advance, neither a reader of the source nor a student who hands in twice. */
static void choose_seed(gs_graders *g, uint64_t seed) {
    uint32_t drawn = 1;
    while (seed == 0) {
        if (getrandom(&drawn, sizeof drawn, 0) != sizeof drawn) drawn = (uint32_t)getpid();
        seed = drawn;
    }
    snprintf(g->seed, sizeof g->seed, "%llu", (unsigned long long)seed);
    gs_tell("grade", "the cases are drawn from the seed %s; with --seed %s they are the same again", g->seed,
            g->seed);
}

static gs_status grade(gs_graders *g, const wishes *w, const gs_hand_ins *all) {
    const gs_format *format;
    gs_labs asked;
    gs_marks_output o = {0};
    GS_TRY(find_format(w, &format));
    GS_TRY(gs_graders_find(g));
    if (w->labs) GS_TRY(gs_labs_parse(w->labs, &g->known, &asked));
    g->trust = w->trust;
    GS_TRY(gs_graders_check_sandbox(g));
    choose_seed(g, w->seed);
    gs_labs labs = labs_for_all(w->labs ? &asked : NULL, &g->known, all);
    gs_status status = gs_marks_output_open(&o, format, w->out, &labs, all->students);
    if (status == GS_OK) status = grade_students(g, all, w, &o);
    return gs_marks_output_close(&o, status);
}

static void help_formats(void) {
    printf("\nformats:\n");
    for (int i = 0; gs_formats[i]; i++) printf("  %-12s %s\n", gs_formats[i]->name, gs_formats[i]->what);
}

int gs_cmd_grade(int argc, char **argv) {
    wishes w = {0};
    int words, exit_status;
    const gs_option options[] = {
        {"labs", GS_OPTION_TEXT, &w.labs, 0, 0, "LIST",
         "these alone: 06,07 (default: all that anybody handed in)"},
        {"format", GS_OPTION_TEXT, &w.format, 0, 0, "NAME", "see below (default: csv)"},
        {"json", GS_OPTION_FLAG, &w.json, 0, 0, NULL, "the same as --format json"},
        {"seed", GS_OPTION_COUNT, &w.seed, 1, 1e18, "N",
         "draw the cases from it (default: a new one each time)"},
        {"board", GS_OPTION_FLAG, &w.board, 0, 0, NULL,
         "rank right answers by what they need, see TEACHING.md"},
        {"trust", GS_OPTION_FLAG, &w.trust, 0, 0, NULL, "grade without a sandbox, with your rights"},
        {"out", GS_OPTION_TEXT, &w.out, 0, 0, "PATH", "write to this file or folder, not to standard output"},
        {0},
    };
    const gs_help help = {"grade DIR... [options]",
                          "Grade hand-ins. DIR holds a folder for each student, with NN/lab.c or lab-NN.c\n"
                          "for each lab (lab.cl for kernels), or a copy of the source tree. Each student\n"
                          "gets a mark for each lab: 0 points and a sentence where nothing can be graded.\n"
                          "The programs run in a sandbox (bubblewrap): without network, without your files,\n"
                          "with limits on time, memory and output.",
                          "gradsum grade hand-ins -o points.csv", help_formats};
    if (!gs_options_taken(options, &help, argc, argv, &words, &exit_status)) return exit_status;
    gs_hand_ins all = {0};
    gs_graders graders = {0};
    gs_stop_on_signals(); /* otherwise the copy of a hand-in would be left behind */
    gs_status status = find_all(words, argv, &all);
    if (status == GS_OK) status = grade(&graders, &w, &all);
    gs_graders_free(&graders);
    gs_hand_ins_free(&all);
    return gs_exit_status("grade", status);
}
