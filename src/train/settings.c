/* Which settings go together: one place decides, before anything is computed. */
#include "train/internal.h"

#include <math.h>

static gs_status check_lr_rule(const gs_settings *s) {
    if (s->lr_rule != GS_LR_NONE) return GS_OK;
    if (s->base_batch)
        return gs_fail(GS_E_USAGE,
                       "--base-batch %llu needs --lr-rule linear or sqrt: without a rule the "
                       "learning rate does not follow the batch",
                       (unsigned long long)s->base_batch);
    if (s->warmup > 0)
        return gs_fail(GS_E_USAGE,
                       "--warmup %g needs --lr-rule linear or sqrt: without a rule there is no "
                       "higher learning rate to warm up to",
                       s->warmup);
    return GS_OK;
}

gs_lr_plan gs_rates_of(const gs_settings *s, size_t batch, size_t samples) {
    uint64_t base = s->base_batch ? s->base_batch : GS_BASE_BATCH;
    size_t steps = (samples + batch - 1) / batch;
    return gs_lr_plan_of(s->lr_rule, (double)s->lr, (double)batch, (double)base, s->warmup, (double)steps);
}

/* NAN: it is not set. */
gs_status gs_check_scaling(const gs_settings *s) {
    double mean = (double)s->mean, std = (double)s->std;
    if (fabs(mean) > GS_MEAN_MOST)
        return gs_fail(GS_E_USAGE, "mean is %g; wanted a number from %g to %g", mean, -GS_MEAN_MOST,
                       GS_MEAN_MOST);
    if (s->std < (float)GS_STD_LEAST || std > GS_STD_MOST)
        return gs_fail(GS_E_USAGE, "std is %g; wanted a number from %g to %g", std, GS_STD_LEAST,
                       GS_STD_MOST);
    return GS_OK;
}

gs_status gs_check_settings(const gs_settings *s) {
    const gs_way *chosen = gs_way_of(s);
    if (s->bucket && chosen->no_bucket)
        return gs_fail(GS_E_USAGE, "%s %s: it does not work with --bucket", chosen->option,
                       chosen->no_bucket);
    if (s->wire != GS_WIRE_F32 && chosen->no_wire)
        return gs_fail(GS_E_USAGE, "%s %s: it does not work with --wire %s", chosen->option, chosen->no_wire,
                       gs_wire_name(s->wire));
    GS_TRY(check_lr_rule(s));
    for (const gs_way *const *way = gs_ways(); *way; way++)
        if ((*way)->check) GS_TRY((*way)->check(s, *way == chosen));
    return GS_OK;
}

gs_status gs_check_workers(const gs_settings *s, int workers) {
    const gs_way *way = gs_way_of(s);
    if (way->parts % workers != 0)
        return gs_fail(
            GS_E_USAGE,
            "%s: there are %d workers; wanted %s, so that the %d virtual shards of a batch divide evenly",
            way->option, workers, way->workers, way->parts);
    if (s->slow.ms > 0 && s->slow.rank >= workers)
        return gs_fail(GS_E_USAGE, "--slow %d:%g: there is no worker %d; workers are 0 to %d", s->slow.rank,
                       s->slow.ms, s->slow.rank, workers - 1);
    return GS_OK;
}
