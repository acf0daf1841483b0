/* The graders of a source tree: the scripts build/lessons/NN/grade, which `make lab-NN` also uses. */
#pragma once

#include <stdbool.h>

#include "core/error.h"
#include "lessons/grade/hand_ins.h"
#include "lessons/grade/labs.h"
#include "lessons/grade/mark.h"
#include "lessons/grade/tree.h"

typedef struct gs_graders {
    gs_tree tree;
    gs_labs known;         /* the labs of the tree */
    cJSON *empty[GS_LABS]; /* of each lab: a mark without points, once it is known */
    char *output;          /* space for a script's output */
    bool trust;            /* run without a sandbox, with the grading user's rights */
    char seed[24];         /* for the cases, as a number; "": the seed of the handed-out labs */
} gs_graders;

/* Finds the tree that contains this program. GS_E_FILE: there is none. */
gs_status gs_graders_find(gs_graders *);
/* Checks that there is a sandbox, if one is needed. GS_E_DEVICE: why not, and what to do. */
gs_status gs_graders_check_sandbox(const gs_graders *);
/* Builds those that are not built yet. */
gs_status gs_graders_build(const gs_graders *);
void gs_graders_free(gs_graders *);

/* Grades a copy of a hand-in's one file: other files that came with it are invisible. Free *mark. A hand-in that cannot
 * be graded gets no points and a problem; a returned error concerns this machine. */
gs_status gs_graders_grade(gs_graders *, const gs_hand_in *, cJSON **mark);

/* A mark without points, for this lab ("": for none) and with this problem. */
gs_status gs_graders_no_points(gs_graders *, const char *lab, const char *problem, cJSON **mark);
