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
    cJSON *empty[GS_LABS]; /* for each lab, a mark without points, once known */
    char *output;          /* space for a script's output */
    bool trust;            /* run without a sandbox, with the rights of the grading user */
    char seed[24];         /* the seed of the cases, as a number; "": the handed-out labs' seed */
} gs_graders;

/* Finds the tree that contains this program. GS_E_FILE: there is none. */
gs_status gs_graders_find(gs_graders *);
/* Checks that there is a sandbox, if one is needed. GS_E_DEVICE: the message says why there is none, and what to do. */
gs_status gs_graders_check_sandbox(const gs_graders *);
/* Builds the graders that are not built yet. */
gs_status gs_graders_build(const gs_graders *);
void gs_graders_free(gs_graders *);

/* Grades a copy of the hand-in's one file, so that other files handed in with it are invisible. Free *mark. A hand-in
 * that cannot be graded scores no points and has a problem; a returned error concerns this machine. */
gs_status gs_graders_grade(gs_graders *, const gs_hand_in *, cJSON **mark);

/* Makes a mark without points, for this lab ("": no lab), with this problem. */
gs_status gs_graders_no_points(gs_graders *, const char *lab, const char *problem, cJSON **mark);
