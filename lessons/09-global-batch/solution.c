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
    double k = batch / base_batch;
    return rule == GS_LR_LINEAR ? lr * k : rule == GS_LR_SQRT ? lr * sqrt(k) : lr;
    /* end of task 9.1 */
}

float gs_lr_at(const gs_lr_plan *p, uint64_t step) {
    /* task 9.1: steps count from 0. The rate is a straight line from p->first at step 0 to p->scaled at step p->warmup,
     * then p->scaled. p->warmup may be 0, and may have a fraction. */
    if ((double)step >= p->warmup) return (float)p->scaled;
    return (float)(p->first + (p->scaled - p->first) * ((double)step / p->warmup));
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
    double sorted[LAB_SEEDS] = {0};
    int reached = 0;
    for (int i = 0; i < seeds; i++) {
        sorted[i] = steps[i] > 0 ? steps[i] : (double)INFINITY;
        reached += steps[i] > 0;
    }
    qsort(sorted, (size_t)seeds, sizeof *sorted, compare);
    return (lab_line){.batch = batch,
                      .reached = reached,
                      .least = reached > 0 ? sorted[0] : 0,
                      .most = reached > 0 ? sorted[reached - 1] : 0,
                      .median = (sorted[(seeds - 1) / 2] + sorted[seeds / 2]) / 2};
    /* end of task 9.2 */
}

double lab_scales_until(const lab_line *line, int lines) {
    /* task 9.3: how many samples did the slowest seed of the base need? Stop at the first batch that does not scale. */
    double enough = line[0].batch * line[0].most, until = 0;
    for (int i = 0; i < lines; i++) {
        if (isinf(line[i].median) || line[i].batch * line[i].least > enough) break;
        until = line[i].batch;
    }
    return until;
    /* end of task 9.3 */
}

lab_law lab_fit(const lab_line *line, int lines) {
    /* task 9.4: minimise the sum of the squares of the relative errors,
     *     least u + samples v - 1        with u = 1 / median, v = 1 / (batch median)
     * At the best law, the derivatives by `least` and by `samples` are 0: two equations for two unknowns. */
    double uu = 0, uv = 0, vv = 0, u1 = 0, v1 = 0;
    int used = 0;
    for (int i = 0; i < lines; i++) {
        if (isinf(line[i].median)) continue;
        double u = 1 / line[i].median, v = u / line[i].batch;
        uu += u * u;
        uv += u * v;
        vv += v * v;
        u1 += u;
        v1 += v;
        used++;
    }
    if (used < 2) return (lab_law){.found = false};
    /* least uu + samples uv = u1;  least uv + samples vv = v1 */
    double determinant = uu * vv - uv * uv;
    lab_law law = {.found = true};
    law.least = (u1 * vv - v1 * uv) / determinant;
    law.samples = (uu * v1 - uv * u1) / determinant;
    law.critical = law.samples / law.least;
    return law;
    /* end of task 9.4 */
}

lab_judgement lab_judge(const lab_line *line, int known) {
    /* task 9.5: predict the steps of line[known] from the law of the known lines (lab_fit). Then judge. */
    lab_law law = lab_fit(line, known);
    if (!law.found) return (lab_judgement){.verdict = LAB_NO_LAW};
    const lab_line *next = &line[known];
    lab_judgement j = {.steps = law.least + law.samples / next->batch, .verdict = LAB_AS_PREDICTED};
    if (j.steps > next->most) j.verdict = LAB_FASTER;
    if (j.steps < next->least) j.verdict = LAB_SLOWER;
    if (isinf(next->median)) j.verdict = LAB_FAILED;
    return j;
    /* end of task 9.5 */
}
