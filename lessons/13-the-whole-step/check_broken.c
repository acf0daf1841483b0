/* Each call of a step fails once, as it does when a rank is lost: the step must pass the failure on. */
#include "check_run.h"

#include <stdio.h>
#include <string.h>

gs_status lab_gradient_alone(lab_step *s) {
    return local_gradient(s, NULL);
}

gs_status lab_gradient_hooked(lab_step *s) {
    return local_gradient(s, lab_hook);
}

gs_status lab_all_released(lab_step *s) {
    for (int l = s->layers - 1; l >= 0; l--) GS_TRY(release(s, l));
    return GS_OK;
}

/* A step of 4 samples for 2 ranks, and a ragged step in which rank 1 has none. */
static const struct {
    size_t of, number; /* lab_case_of */
    int rank;
} steps[] = {{2, 0, 0}, {3, 1, 1}};
enum { STEPS = sizeof steps / sizeof *steps };

static gs_status run(lab_sim *s, size_t i, gs_status (*piece)(lab_step *), bool buckets,
                     const event *breaks) {
    const lab_case c = lab_case_of(steps[i].of);
    lab_sim_begin(s, &c, steps[i].rank, buckets);
    lab_sim_next(s, steps[i].number);
    s->breaks = breaks;
    return lab_sim_ended(s, piece(&s->step));
}

static gs_status check_not_updated(const lab_sim *s, size_t i, const char *call) {
    lab_sim before;
    const lab_case c = lab_case_of(steps[i].of);
    lab_sim_begin(&before, &c, steps[i].rank, false);
    LAB_CHECK_HINT(memcmp(s->weights, before.weights, sizeof before.weights) == 0,
                   "return a failure at once: numbers that were not computed or not summed are no gradient.",
                   "%s: the weights were updated nevertheless", call);
    return GS_OK;
}

/* A piece that does not make this call has nothing to pass on. */
static gs_status check_passed_on(size_t i, gs_status (*piece)(lab_step *), bool buckets,
                                 const event *breaks) {
    lab_sim s;
    char call[60];
    const gs_status status = run(&s, i, piece, buckets, breaks);
    snprintf(call, sizeof call, "%s fails", lab_event_text(breaks));
    if (!s.broken) return GS_OK;
    GS_TRY(lab_passed_on(status, call));
    return check_not_updated(&s, i, call);
}

/* A sum that a hook begins fails inside that hook. */
static bool is_passed_on_by(size_t i, gs_status (*piece)(lab_step *), const lab_sim *whole, event breaks,
                            bool buckets) {
    if (piece == lab_gradient_hooked && breaks.kind == BEGINS)
        breaks = (event){HOOK, lab_sim_last_layer(whole, breaks.index)};
    const bool is = check_passed_on(i, piece, buckets, &breaks) == GS_OK;
    if (!is) lab_hint(""); /* this failure is not reported */
    return is;
}

static gs_status check_calls(const lab_piece *p, size_t i) {
    lab_sim whole;
    const lab_case c = lab_case_of(steps[i].of);
    GS_TRY(run(&whole, i, p->run, p->buckets, NULL));
    for (int k = 0; k < whole.events; k++) {
        const event breaks = whole.event[k];
        bool ours = true;
        for (int n = 0; p->of && p->of[n]; n++)
            ours = ours && is_passed_on_by(i, p->of[n], &whole, breaks, p->buckets);
        if (ours)
            GS_TRY(gs_context(check_passed_on(i, p->run, p->buckets, &breaks), "%s: step %zu, rank %d",
                              lab_case_text(&c), steps[i].number, steps[i].rank));
    }
    return GS_OK;
}

gs_status lab_check_broken(const lab_piece *p) {
    for (size_t i = 0; i < STEPS; i++) GS_TRY(check_calls(p, i));
    return GS_OK;
}
