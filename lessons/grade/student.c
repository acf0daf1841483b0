#include "lessons/grade/student.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/text.h"

gs_labs gs_labs_for_all(const gs_labs *asked, const gs_labs *known, const gs_hand_ins *all) {
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
    int count;
    cJSON *marks;
} student;

/* Behind the others. */
static void add_mark(const student *s, cJSON *mark) {
    cJSON *all = cJSON_CreateObject(), *item;
    char name[4 * 255 + 1]; /* in one line, and in front */
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

/* lab "": nobody has handed in anything, so there is no other lab to name. */
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

gs_status gs_student_marks(gs_graders *g, const gs_hand_ins *all, int *next, const gs_labs *labs, bool others,
                           cJSON **marks) {
    student s = {.graders = g, .first = &all->list[*next], .marks = cJSON_CreateArray()};
    while (*next < all->count && all->list[*next].who == s.first->who) {
        s.count++;
        (*next)++;
    }
    *marks = s.marks;
    return add_all(&s, labs, others);
}
