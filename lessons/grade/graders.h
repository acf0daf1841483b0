/* The graders of a source tree: the scripts build/lessons/NN/grade that `make lab-NN` uses too. */
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
    cJSON *empty[GS_LABS]; /* of each lab: a mark with no points, once it is known */
    char *output;          /* room for what a script prints */
    bool trust;            /* without a sandbox, with the rights of who grades */
    char seed[24];         /* of the cases, as a number; "": that of the handed-out labs */
} gs_graders;

/* Find the tree that this program is in. GS_E_FILE: it is in none. */
gs_status gs_graders_find(gs_graders *);
/* Is there a sandbox, if one is needed? GS_E_DEVICE: why not, and what to do. */
gs_status gs_graders_check_sandbox(const gs_graders *);
/* Build those that are not built yet. */
gs_status gs_graders_build(const gs_graders *);
void gs_graders_free(gs_graders *);

/* Grade a hand-in on a copy of its one file: other files that came with it are not seen. *mark is to be freed. A
 * hand-in that cannot be graded gets no points and a problem; an error is one of this machine. */
gs_status gs_graders_grade(gs_graders *, const gs_hand_in *, cJSON **mark);

/* A mark without points, for this lab ("": for none) and with this problem. */
gs_status gs_graders_no_points(gs_graders *, const char *lab, const char *problem, cJSON **mark);
