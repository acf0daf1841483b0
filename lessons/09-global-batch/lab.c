/* Lesson 9: the global batch and the learning rate. tasks.h, src/optim/lr_rule.h and README.md say what to write.
 *
 * The first half of this file, with given.c, replaces the library's functions of that header:
 * `build/lessons/09/gradsum train --lr-rule linear --warmup 1` calls it for the rate of each step. */
#include "tasks.h"

#include <math.h>
#include <stdlib.h>

/* ---- the rate of each step ---- */

double gs_lr_scaled(gs_lr_rule rule, double lr, double batch, double base_batch) {
    /* task 9.1: lr is for the base batch. By which factor must it grow (or shrink) for this batch? The factor depends
     * on the rule: GS_LR_NONE, GS_LR_LINEAR, GS_LR_SQRT. */
    (void)rule, (void)batch, (void)base_batch;
    return lab_blank("9.1 (gs_lr_scaled)") == GS_OK ? lr : 0;
    /* end of task 9.1 */
}

float gs_lr_at(const gs_lr_plan *p, uint64_t step) {
    /* task 9.1: steps count from 0. The rate is a straight line from p->first at step 0 to p->scaled at step p->warmup,
     * then p->scaled. p->warmup may be 0, and may have a fraction. */
    (void)p, (void)step;
    return lab_blank("9.1 (gs_lr_at)") == GS_OK;
    /* end of task 9.1 */
}

/* ---- what a sweep says ---- */

/* Given, for qsort. */
static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

lab_line lab_line_of(double batch, const double *steps, int seeds) {
    /* task 9.2: copy the steps, with INFINITY for never; qsort them with `compare`; then fill in the line. */
    (void)batch, (void)steps, (void)seeds, (void)compare;
    lab_blank("9.2");
    return (lab_line){0};
    /* end of task 9.2 */
}

double lab_scales_until(const lab_line *line, int lines) {
    /* task 9.3: how many samples did the slowest seed of the base need? Stop at the first batch that does not scale. */
    (void)line, (void)lines;
    return lab_blank("9.3") == GS_OK;
    /* end of task 9.3 */
}

lab_law lab_fit(const lab_line *line, int lines) {
    /* task 9.4: minimise the sum of the squares of the relative errors,
     *     least u + samples v - 1        with u = 1 / median, v = 1 / (batch median)
     * At the best law, the derivatives by `least` and by `samples` are 0: two equations for two unknowns. */
    (void)line, (void)lines;
    return (lab_law){.found = lab_blank("9.4") == GS_OK};
    /* end of task 9.4 */
}

lab_judgement lab_judge(const lab_line *line, int known) {
    /* task 9.5: predict the steps of line[known] from the law of the known lines (lab_fit). Then judge. */
    (void)line, (void)known;
    return (lab_judgement){.steps = lab_blank("9.5") == GS_OK};
    /* end of task 9.5 */
}
