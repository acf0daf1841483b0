/* Lab 9, as given: the other functions of src/optim/lr_rule.h. */
#include "tasks.h"

#include <string.h>

static const char *const names[] = {"none", "linear", "sqrt"};

const char *gs_lr_rule_name(gs_lr_rule rule) {
    return names[rule];
}

/* A rate that does not grow needs no warm-up. */
gs_lr_plan gs_lr_plan_of(gs_lr_rule rule, double lr, double batch, double base_batch, double warmup_epochs,
                         double steps) {
    double scaled = gs_lr_scaled(rule, lr, batch, base_batch);
    gs_lr_plan plan = {.first = scaled, .scaled = scaled};
    if (lr < scaled) plan.warmup = warmup_epochs * steps;
    if (plan.warmup > 0) plan.first = lr;
    return plan;
}
