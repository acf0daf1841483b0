/* Lesson 9: the global batch and the learning rate. What to write is said in tasks.h, in src/optim/lr_rule.h, and in
 * README.md.
 *
 * This file takes the place of src/optim/lr_rule.c: `build/lessons/09/gradsum train --lr-rule linear --warmup 1` asks
 * the functions below for the rate of each step. */
#include "tasks.h"

#include <math.h>
#include <string.h>

/* ---- given: the names of the rules ---- */

static const char *const names[] = {"none", "linear", "sqrt"};

gs_status gs_lr_rule_find(const char *name, gs_lr_rule *out) {
    for (int i = 0; i <= GS_LR_SQRT; i++) {
        if (strcmp(name, names[i]) != 0) continue;
        *out = (gs_lr_rule)i;
        return GS_OK;
    }
    return gs_fail(GS_E_USAGE, "unknown --lr-rule '%s'; choose one of: none, linear, sqrt", name);
}

const char *gs_lr_rule_name(gs_lr_rule rule) {
    return names[rule];
}

/* ---- the rule ---- */

double gs_lr_scaled(gs_lr_rule rule, double lr, double batch, double base_batch) {
    /* task 9.1: lr is for the base batch. By which factor must it grow (or shrink) for this batch? It depends
     * on the rule: GS_LR_NONE, GS_LR_LINEAR, GS_LR_SQRT. */
    double k = batch / base_batch;
    return rule == GS_LR_LINEAR ? lr * k : rule == GS_LR_SQRT ? lr * sqrt(k) : lr;
    /* end of task 9.1 */
}

gs_lr_plan gs_lr_plan_of(gs_lr_rule rule, double lr, double batch, double base_batch, double warmup_epochs,
                         double steps) {
    /* task 9.2: fill in a gs_lr_plan: the rate of the first step, the scaled rate (ask gs_lr_scaled), and how many
     * STEPS lie between them; `steps` is the number of steps in an epoch. A rate that does not grow needs no
     * warm-up. Without one the first step already has the scaled rate. */
    double scaled = gs_lr_scaled(rule, lr, batch, base_batch);
    gs_lr_plan plan = {.first = scaled, .scaled = scaled};
    if (lr < scaled) plan.warmup = warmup_epochs * steps;
    if (plan.warmup > 0) plan.first = lr;
    return plan;
    /* end of task 9.2 */
}

float gs_lr_at(const gs_lr_plan *p, uint64_t step) {
    /* task 9.3: the rate of step number `step`, which begins with 0: a straight line from p->first at step 0 to
     * p->scaled at step p->warmup, then p->scaled. p->warmup may be 0, and need not be a whole number. */
    if ((double)step >= p->warmup) return (float)p->scaled;
    return (float)(p->first + (p->scaled - p->first) * ((double)step / p->warmup));
    /* end of task 9.3 */
}

/* ---- where it breaks ---- */

bool fit_batch_law(const sweep_line *line, int lines, batch_law *law) {
    /* task 9.4: divide each line's error by its steps, and what is to be small is the sum of the squares of
     *     least u + samples v - 1        with u = 1 / steps, v = 1 / (batch steps)
     * Its derivatives by `least` and by `samples` are 0 at the best law: two equations for two unknowns. */
    double uu = 0, uv = 0, vv = 0, u1 = 0, v1 = 0;
    int used = 0;
    for (int i = 0; i < lines; i++) {
        if (!(line[i].steps > 0)) continue;
        double u = 1 / line[i].steps, v = u / line[i].batch;
        uu += u * u;
        uv += u * v;
        vv += v * v;
        u1 += u;
        v1 += v;
        used++;
    }
    if (used < 2) return false;
    /* least uu + samples uv = u1;  least uv + samples vv = v1 */
    double determinant = uu * vv - uv * uv;
    law->least = (u1 * vv - v1 * uv) / determinant;
    law->samples = (uu * v1 - uv * u1) / determinant;
    law->critical = law->samples / law->least;
    return true;
    /* end of task 9.4 */
}
