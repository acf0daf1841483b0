/* What lesson 9 asks for, in lab.c. Tasks 9.1 to 9.3 are three functions of src/optim/lr_rule.h, where the formulas
 * are:
 *
 *     9.1   gs_lr_scaled     the rate that a rule makes for a batch
 *     9.2   gs_lr_plan_of    from which rate to which, and in how many steps
 *     9.3   gs_lr_at         the rate of one step
 */
#pragma once

#include "lab.h"
#include <stdbool.h>
#include "optim/lr_rule.h"

/* One line of a sweep. */
typedef struct sweep_line {
    double batch, steps; /* steps to the target; 0: never */
} sweep_line;

/* What a sweep's lines say together: steps(B) = least + samples / B. */
typedef struct batch_law {
    double least;    /* steps that no batch, however large, can do without */
    double samples;  /* that no batch, however small, can do without */
    double critical; /* samples / least: the batch at which twice the least steps are needed */
} batch_law;

/* Task 9.4. The law that fits best, for which the sum of the squares of the relative errors,
 *
 *     sum over lines of ((least + samples / batch - steps) / steps)^2
 *
 * is smallest. Lines that never reached the target say nothing about it and are left out. False where fewer than two
 * batches reached it, so that there is no such law. The batches of two lines differ. */
bool fit_batch_law(const sweep_line *line, int lines, batch_law *law);
