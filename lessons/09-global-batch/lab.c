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
    (void)rule, (void)batch, (void)base_batch;
    return lab_blank("9.1") == GS_OK ? lr : 0;
    /* end of task 9.1 */
}

gs_lr_plan gs_lr_plan_of(gs_lr_rule rule, double lr, double batch, double base_batch, double warmup_epochs,
                         double steps) {
    /* task 9.2: fill in a gs_lr_plan: the rate of the first step, the scaled rate (ask gs_lr_scaled), and how many
     * STEPS lie between them; `steps` is the number of steps in an epoch. A rate that does not grow needs no
     * warm-up. Without one the first step already has the scaled rate. */
    (void)rule, (void)lr, (void)batch, (void)base_batch, (void)warmup_epochs, (void)steps;
    lab_blank("9.2");
    return (gs_lr_plan){0};
    /* end of task 9.2 */
}

float gs_lr_at(const gs_lr_plan *p, uint64_t step) {
    /* task 9.3: the rate of step number `step`, which begins with 0: a straight line from p->first at step 0 to
     * p->scaled at step p->warmup, then p->scaled. p->warmup may be 0, and need not be a whole number. */
    (void)p, (void)step;
    return lab_blank("9.3") == GS_OK;
    /* end of task 9.3 */
}

/* ---- where it breaks ---- */

bool fit_batch_law(const sweep_line *line, int lines, batch_law *law) {
    /* task 9.4: divide each line's error by its steps, and what is to be small is the sum of the squares of
     *     least u + samples v - 1        with u = 1 / steps, v = 1 / (batch steps)
     * Its derivatives by `least` and by `samples` are 0 at the best law: two equations for two unknowns. */
    (void)line, (void)lines, (void)law;
    return lab_blank("9.4") == GS_OK;
    /* end of task 9.4 */
}
