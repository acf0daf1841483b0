/* The learning rates of a run, as the settings make them. */
#include "train/internal.h"

#include <inttypes.h>
#include <math.h>

/* With a rule the warm-up is part of its plan: it counts epochs of `unit` steps. */
gs_lr_course gs_rates_of(const gs_settings *s, size_t batch, size_t samples) {
    const uint64_t base = s->base_batch ? s->base_batch : GS_BASE_BATCH;
    const size_t steps = (samples + batch - 1) / batch; /* of an epoch */
    const double lr = (double)gs_settings_numbers(s).lr, epoch = (double)steps;
    const double length = s->warmup_steps ? (double)s->warmup_steps : s->warmup;
    const double unit = s->warmup_steps ? 1 : epoch;
    gs_lr_course c = {.schedule = s->schedule,
                      .final_lr = isnan(s->final_lr) ? 0 : (double)s->final_lr,
                      .epoch = epoch,
                      .steps = epoch * s->epochs};
    const bool ruled = s->lr_rule != GS_LR_NONE;
    c.plan = gs_lr_plan_of(s->lr_rule, lr, (double)batch, (double)base, ruled ? length : 0, unit);
    c.warmup = ruled ? c.plan.warmup : length * unit;
    if (s->steps && (double)s->steps < c.steps) c.steps = (double)s->steps;
    return c;
}

gs_status gs_check_lr(const gs_settings *s) {
    char room[GS_LR_SCHEDULE_TEXT];
    const gs_lr_schedule *schedule = &s->schedule;
    const char *named = gs_lr_schedule_text(schedule, room, sizeof room);
    if (s->base_batch && s->lr_rule == GS_LR_NONE)
        return gs_fail(GS_E_USAGE,
                       "--base-batch %" PRIu64 " needs --lr-rule linear or sqrt: without a rule the "
                       "learning rate does not follow the batch",
                       s->base_batch);
    if (s->warmup > 0 && s->warmup_steps)
        return gs_fail(GS_E_USAGE,
                       "--warmup %g and --warmup-steps %" PRIu64
                       " both say how long the warm-up is; use only "
                       "one of them",
                       s->warmup, s->warmup_steps);
    if (!isnan(s->final_lr) && !gs_lr_schedule_falls(schedule))
        return gs_fail(GS_E_USAGE,
                       "--final-lr %g needs --schedule linear or cosine: with %s the rate does not move "
                       "towards one",
                       (double)s->final_lr, named);
    const double last = schedule->drops > 0 ? schedule->drop[schedule->drops - 1] : 0;
    if (last >= s->epochs)
        return gs_fail(GS_E_USAGE,
                       "--schedule %s: the run has %d epoch%s, so the rate would not change after %g; wanted "
                       "epochs below %d",
                       named, s->epochs, s->epochs > 1 ? "s" : "", last, s->epochs);
    return GS_OK;
}

gs_status gs_check_rates(const gs_settings *s, size_t samples) {
    const gs_lr_course c = gs_rates_of(s, s->batch ? s->batch : samples, samples);
    char text[GS_LR_SCHEDULE_TEXT];
    if (!gs_lr_schedule_falls(&s->schedule) || c.warmup < c.steps) return GS_OK;
    return gs_fail(
        GS_E_USAGE,
        "the warm-up takes %g steps, and the run has %g: --schedule %s would never begin; wanted a "
        "shorter warm-up",
        c.warmup, c.steps, gs_lr_schedule_text(&s->schedule, text, sizeof text));
}
