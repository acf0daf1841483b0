#include "optim/lr_rule.h"

#include <math.h>

static const char *const names[] = {"none", "linear", "sqrt"};

const char *gs_lr_rule_name(gs_lr_rule rule) {
    return (unsigned)rule < 3 ? names[rule] : "an unknown rule"; /* the number may come from another rank */
}

double gs_lr_scaled(gs_lr_rule rule, double lr, double batch, double base_batch) {
    double k = batch / base_batch;
    return rule == GS_LR_LINEAR ? lr * k : rule == GS_LR_SQRT ? lr * sqrt(k) : lr;
}

gs_lr_plan gs_lr_plan_of(gs_lr_rule rule, double lr, double batch, double base_batch, double warmup_epochs,
                         double steps) {
    double scaled = gs_lr_scaled(rule, lr, batch, base_batch);
    gs_lr_plan plan = {.first = scaled, .scaled = scaled};
    if (lr < scaled) plan.warmup = warmup_epochs * steps;
    if (plan.warmup > 0) plan.first = lr;
    return plan;
}

float gs_lr_at(const gs_lr_plan *p, uint64_t step) {
    if ((double)step >= p->warmup) return (float)p->scaled;
    return (float)(p->first + (p->scaled - p->first) * ((double)step / p->warmup));
}
