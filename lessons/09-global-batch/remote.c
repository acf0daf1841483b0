/* How the calls of lab 9 travel. */
#include "tasks.h"

#include "remote/remote.h"

enum { SCALED, RATE_AT, LINE_OF, SCALES_UNTIL, FIT, JUDGE };

/* ---- the rates ---- */

typedef struct scaled_call {
    gs_lr_rule rule;
    double lr, batch, base_batch, scaled;
} scaled_call;

static void pass_scaled(lab_wire *w, void *arguments) {
    scaled_call *a = arguments;
    LAB_VALUES(w, a->rule, a->lr, a->batch, a->base_batch);
    LAB_RESULT(w, a->scaled);
}

typedef struct rate_call {
    gs_lr_plan plan;
    uint64_t step;
    float rate;
} rate_call;

static void pass_rate(lab_wire *w, void *arguments) {
    rate_call *a = arguments;
    LAB_VALUES(w, a->plan, a->step);
    LAB_RESULT(w, a->rate);
}

/* ---- a sweep ---- */

typedef struct line_call {
    double batch, *steps;
    int seeds;
    lab_line line;
} line_call;

static void pass_line(lab_wire *w, void *arguments) {
    line_call *a = arguments;
    LAB_VALUES(w, a->batch, a->seeds);
    LAB_INOUT(w, a->steps, (size_t)a->seeds); /* so that the check sees changes */
    LAB_RESULT(w, a->line);
}

typedef struct sweep_call {
    const lab_line *line;
    int lines;
    double until;
    lab_law law;
    lab_judgement judgement;
} sweep_call;

static void pass_sweep(lab_wire *w, void *arguments) {
    sweep_call *a = arguments;
    LAB_VALUE(w, a->lines);
    LAB_IN(w, a->line, (size_t)a->lines);
    LAB_RESULT(w, a->until);
    LAB_RESULT(w, a->law);
    LAB_RESULT(w, a->judgement);
}

#ifdef LAB_HAND_IN

LAB_CALLER(call_scaled, scaled_call, a->scaled = gs_lr_scaled(a->rule, a->lr, a->batch, a->base_batch))
LAB_CALLER(call_rate, rate_call, a->rate = gs_lr_at(&a->plan, a->step))
LAB_CALLER(call_line, line_call, a->line = lab_line_of(a->batch, a->steps, a->seeds))
LAB_CALLER(call_until, sweep_call, a->until = lab_scales_until(a->line, a->lines))
LAB_CALLER(call_fit, sweep_call, a->law = lab_fit(a->line, a->lines))
LAB_CALLER(call_judge, sweep_call, a->judgement = lab_judge(a->line, a->lines - 1))

#else

double gs_lr_scaled(gs_lr_rule rule, double lr, double batch, double base_batch) {
    LAB_ASK(SCALED, scaled_call, scaled, rule, lr, batch, base_batch, 0);
}

float gs_lr_at(const gs_lr_plan *p, uint64_t step) {
    LAB_ASK(RATE_AT, rate_call, rate, *p, step, 0);
}

lab_line lab_line_of(double batch, const double *steps, int seeds) {
    LAB_ASK(LINE_OF, line_call, line, .batch = batch, .steps = (double *)steps, .seeds = seeds);
}

double lab_scales_until(const lab_line *line, int lines) {
    LAB_ASK(SCALES_UNTIL, sweep_call, until, .line = line, .lines = lines);
}

lab_law lab_fit(const lab_line *line, int lines) {
    LAB_ASK(FIT, sweep_call, law, .line = line, .lines = lines);
}

/* The known lines, and the one to judge. */
lab_judgement lab_judge(const lab_line *line, int known) {
    LAB_ASK(JUDGE, sweep_call, judgement, .line = line, .lines = known + 1);
}
#endif

const lab_function lab_functions[] = {
    {sizeof(scaled_call), pass_scaled, LAB_THEIRS(call_scaled)},
    {sizeof(rate_call), pass_rate, LAB_THEIRS(call_rate)},
    {sizeof(line_call), pass_line, LAB_THEIRS(call_line)},
    {sizeof(sweep_call), pass_sweep, LAB_THEIRS(call_until)},
    {sizeof(sweep_call), pass_sweep, LAB_THEIRS(call_fit)},
    {sizeof(sweep_call), pass_sweep, LAB_THEIRS(call_judge)},
    {0},
};
