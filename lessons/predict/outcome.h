/* What came out of the experiment of a box, and how a prediction compares with it. */
#pragma once

#include <stdbool.h>
#include "lessons/predict/boxes.h"

enum { GS_OUTPUT_MOST = 1 << 18 }; /* bytes of a command's output that are looked at */

/* What is found in the outputs of the box's commands, as gs_box_answer keeps an answer. GS_E_FORMAT: an output does
 * not have it. */
gs_status gs_outcome_find(const gs_box *, const char *const outputs[GS_BOX_RUNS], char *outcome, size_t size);

/* The commands that have run, with what they printed: a box that asks for the same one looks at the same output. */
typedef struct gs_ran {
    const char *command[GS_BOXES_MOST * GS_BOX_RUNS]; /* of a box, whose texts must stay */
    char *output[GS_BOXES_MOST * GS_BOX_RUNS];
    int count;
} gs_ran;

void gs_ran_free(gs_ran *);

/* Run those commands that `ran` does not have yet, in the folder `tree`, with `program` for "gradsum"; show each with
 * its output, add it to `ran`, and find the outcome. GS_E_FILE: a command failed. */
gs_status gs_outcome_run(const gs_box *, const char *tree, const char *program, gs_ran *ran, char *outcome,
                         size_t size);

/* Does a box run a command that the other one runs too, so that both outcomes are in one output? */
bool gs_outcome_shares(const gs_box *, const gs_box *);

/* Is the prediction right: the same word, or a number as near as the box wants it? */
bool gs_outcome_right(const gs_box *, const char *prediction, const char *outcome);

/* One sentence about the difference: "You predicted 4 times as much." */
void gs_outcome_compare(const gs_box *, const char *prediction, const char *outcome, char *text, size_t size);
