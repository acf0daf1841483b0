/* A run whose loss is no longer finite fails, and reports the step.
 *
 * If the learning rate is too large, each step overshoots the minimum further than the previous one. The loss grows
 * until it is infinite or not a number (NaN), and soon all weights are NaN. From then on the run learns nothing, and
 * its weights must not replace a good file. A diverged run therefore fails, and its last weights are not saved.
 * --keep-going lets it continue.
 *
 * All workers must end together, or some would wait for others that have ended. If each step sums the loss over the
 * workers, all see the same loss. With --sync local and async each worker sees its own loss. A request to stop then
 * spreads as after Ctrl-C (GS_STAT_STOP), and at the epoch's end all learn which worker diverged first.
 *
 * In f16 the loss can stay finite while no gradient is finite, even with the smallest loss scale (optim/loss_scale.h).
 * Then there are no updates, and the initial weights would be saved as trained ones. The run ends after
 * GS_LOSS_SCALE_HOPELESS such steps; a shorter run fails if none of its steps makes an update.
 *
 * Inference with a non-finite loss or logit fails too, because its results would mean nothing.
 */
#include "train/hooks.h"
#include "train/strategy.h"
#include "train/diverged.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

bool gs_watch_loss(gs_worker *w, double loss, uint64_t step) {
    if (w->settings->keep_going || isfinite(loss)) return w->diverged.step > 0;
    if (w->diverged.step == 0) {
        w->diverged.step = step;
        w->diverged.loss = loss;
    }
    return true;
}

static double without_sign(double x) {
    return isnan(x) ? (double)NAN : x; /* printf would show a NaN's sign */
}

/* Write advice that states --lr and, if a rule, warm-up or schedule changes it, the step's rate. step: from 1. */
static void advise(const gs_worker *w, uint64_t step, char *text, size_t size) {
    const gs_settings *s = w->settings;
    const double lr = (double)gs_settings_numbers(s).lr,
                 rate = (double)gs_lr_of_step(&w->rates, step > 0 ? step - 1 : 0);
    if (w->diverged.loaded_bad)
        snprintf(text, size, "%s (--%s) already holds %s", s->load, s->resume ? "resume" : "load",
                 w->diverged.loaded_bad_value);
    else if (fabs(rate - lr) <= 1e-6 * lr)
        snprintf(text, size, "try a smaller --lr than %g, or --keep-going", lr);
    else
        snprintf(text, size,
                 "this step's rate was %g, from --lr %g: try a smaller one, or --keep-going (--lr-rule, "
                 "--warmup or --schedule changed the rate)",
                 rate, lr);
}

static gs_status fail(const gs_worker *w, uint64_t step, const char *what, double found) {
    char advice[900];
    advise(w, step, advice, sizeof advice);
    return gs_fail(GS_E_DIVERGED, "diverged at step %" PRIu64 ": %s is %g; wanted a finite number: %s", step,
                   what, without_sign(found), advice);
}

/* Called before a failure that every worker detects by itself, so that no worker has to notify the others. */
static gs_status meet(gs_worker *w, uint64_t step) {
    GS_TRY(gs_comm_barrier(w->comm));
    w->diverged.together = true;
    w->diverged.step = step;
    return GS_OK;
}

static gs_status fail_together(gs_worker *w, uint64_t step, const char *what, double found) {
    GS_TRY(meet(w, step));
    return fail(w, step, what, found);
}

/* True if no loss scale works in f16. Every worker detects this by itself. */
static bool is_hopeless(const gs_worker *w) {
    return !w->settings->keep_going && w->optimizer->loss_scale.floored >= GS_LOSS_SCALE_HOPELESS;
}

/* Workers whose weights differ from each other's between steps notify each other through the request to stop. */
static gs_status after_step(gs_worker *w, gs_event *e) {
    e->diverged = (gs_watch_loss(w, e->score.loss, w->step) || is_hopeless(w)) && !w->strategy->apart;
    return GS_OK;
}

static gs_status fail_in_f16(gs_worker *w) {
    const gs_loss_scale *l = &w->optimizer->loss_scale;
    const bool hopeless = is_hopeless(w);
    GS_TRY(meet(w, w->step));
    return gs_fail(GS_E_DIVERGED,
                   "diverged at step %" PRIu64 ": gradients in f16 are not finite with %s %g (updates left "
                   "out: %s %" PRIu64 "); wanted finite ones: try %ssmaller inputs (--std), --precision "
                   "bf16, or --keep-going",
                   w->step, hopeless ? "the least loss scale," : "a loss scale of", (double)l->used,
                   hopeless ? "the last" : "all", hopeless ? l->floored : l->skips,
                   hopeless ? "" : "more steps, ");
}

/* Fail on all workers if any of them has seen a non-finite loss. */
static gs_status after_steps(gs_worker *w, gs_event *e) {
    gs_watch_loss(w, e->total.loss, w->step);
    if (w->settings->keep_going) return GS_OK;
    if (is_hopeless(w)) return fail_in_f16(w);
    double first = w->diverged.step > 0 ? (double)w->diverged.step : INFINITY;
    if (w->strategy->apart) GS_TRY(gs_comm_all_reduce(w->comm, &first, 1, GS_F64, GS_MIN));
    if (!isfinite(first)) return GS_OK;
    double loss = (double)w->diverged.step == first ? w->diverged.loss : -INFINITY; /* NaN wins */
    GS_TRY(gs_comm_all_reduce(w->comm, &loss, 1, GS_F64, GS_MAX));
    return fail_together(w, (uint64_t)first, "the loss", loss);
}

static gs_status after_test(gs_worker *w, gs_event *e) {
    if (w->settings->keep_going || isfinite(e->test.loss)) return GS_OK;
    return fail_together(w, w->step, "the test loss after it", e->test.loss);
}

static gs_status end(gs_worker *w, gs_event *e) {
    const bool learned = w->optimizer->updates > 0 || w->optimizer->loss_scale.skips == 0;
    return learned || w->settings->keep_going || e->result->interrupted ? GS_OK : fail_in_f16(w);
}

const gs_hook gs_hook_divergence = {
    .after_step = after_step, .after_steps = after_steps, .after_test = after_test, .end = end};

const float *gs_find_bad(const gs_model *m, int params, const float *weights, const char **name) {
    for (int p = 0; p < params; p++) {
        const float *x = weights + m->param[p]->at;
        *name = m->param[p]->name;
        for (size_t i = 0; i < m->param[p]->count; i++)
            if (!isfinite(x[i])) return &x[i];
    }
    return NULL;
}

void gs_look_at_loaded(gs_worker *w, const float *weights) {
    const char *name;
    const gs_model *m = gs_model_whole(w->model);
    const float *bad = gs_find_bad(m, m->param_count, weights, &name);
    w->diverged.loaded_bad = bad != NULL;
    if (bad)
        snprintf(w->diverged.loaded_bad_value, sizeof w->diverged.loaded_bad_value, "%g in %s",
                 without_sign((double)*bad), name);
}

gs_status gs_check_weights(const gs_worker *w, const float *weights) {
    char what[120];
    const char *name;
    const gs_model *m = gs_model_whole(w->model);
    const float *bad = w->settings->keep_going ? NULL : gs_find_bad(m, m->param_count, weights, &name);
    if (!bad) return GS_OK;
    snprintf(what, sizeof what, "a value in %s", name);
    return fail(w, w->step, what, (double)*bad);
}

/* ---- inference ---- */

static gs_status fail_to_infer(const gs_worker *w, const char *what, double found) {
    bool bad = w->diverged.loaded_bad;
    return gs_fail(GS_E_DIVERGED, "%s is %g; wanted a finite number%s%s%s%s (--keep-going accepts it)", what,
                   without_sign(found), bad ? ": " : "", bad ? w->settings->load : "", bad ? " holds " : "",
                   bad ? w->diverged.loaded_bad_value : "");
}

gs_status gs_check_inferred_loss(gs_worker *w, double loss) {
    if (w->settings->keep_going || isfinite(loss)) return GS_OK;
    GS_TRY(meet(w, w->diverged.step));
    return fail_to_infer(w, "the test loss", loss);
}

gs_status gs_check_logits(const gs_worker *w, const float *logits, size_t first, size_t samples) {
    size_t outputs = gs_shape_size(w->model->out);
    char what[80];
    for (size_t i = 0; i < samples * outputs && !w->settings->keep_going; i++) {
        if (isfinite(logits[i])) continue;
        snprintf(what, sizeof what, "logit %zu of sample %zu", i % outputs, first + i / outputs);
        return fail_to_infer(w, what, (double)logits[i]);
    }
    return GS_OK;
}
