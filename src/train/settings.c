/* Which settings go together: one place that tells, before anything is computed. */
#include "train/modes.h"

#include <string.h>

gs_settings gs_settings_default(void) {
    return (gs_settings){.data = "fashion-mnist-small",
                         .devices = "cpu",
                         .sync = "allreduce",
                         .batch = 128,
                         .epochs = 5,
                         .seed = 1,
                         .lr = 0.05f,
                         .momentum = 0.9f,
                         .staleness = -1,
                         .timeout = GS_TIMEOUT};
}

bool gs_is_local(const gs_settings *s) {
    return strcmp(s->sync, "local") == 0;
}

bool gs_is_async(const gs_settings *s) {
    return strcmp(s->sync, "async") == 0;
}

bool gs_is_sharded(const gs_settings *s) {
    return strcmp(s->sync, "sharded-update") == 0;
}

gs_status gs_find_scheme(const gs_settings *s, const gs_sync_scheme **out) {
    if (gs_is_local(s) || gs_is_async(s) || gs_is_sharded(s))
        return gs_sync_find(gs_settings_default().sync, out);
    gs_status status = gs_sync_find(s->sync, out);
    return status == GS_OK ? status : gs_fail(status, "%s, sharded-update, local, async", gs_message());
}

static gs_status check_local(const gs_settings *s) {
    if (!gs_is_local(s))
        return s->every
                   ? gs_fail(GS_E_USAGE, "--every goes with --sync local alone, not with --sync %s", s->sync)
                   : GS_OK;
    if (!s->every)
        return gs_fail(GS_E_USAGE, "--sync local wants --every H: the steps from one average to the next");
    if (s->verify % (uint64_t)s->every != 0)
        return gs_fail(GS_E_USAGE,
                       "--verify %llu: with --sync local the weights are the same after an average alone: "
                       "wanted a multiple of --every %d",
                       (unsigned long long)s->verify, s->every);
    return GS_OK;
}

static gs_status check_async(const gs_settings *s) {
    if (!gs_is_async(s))
        return s->staleness >= 0
                   ? gs_fail(GS_E_USAGE, "--staleness goes with --sync async alone, not with --sync %s",
                             s->sync)
                   : GS_OK;
    if (s->staleness < 0)
        return gs_fail(
            GS_E_USAGE,
            "--sync async wants --staleness K: how many steps a worker may be ahead of the slowest");
    if (s->verify)
        return gs_fail(GS_E_USAGE, "--verify: with --sync async the workers' weights differ by intent");
    return GS_OK;
}

/* --exact: only where each operator is known to give the same bits. */
static gs_status check_exact(const gs_settings *s) {
    for (int i = 0; i < gs_devices_count(s->devices); i++) {
        char name[48];
        GS_TRY(gs_devices_name(s->devices, i, name));
        if (strcmp(name, "cpu") != 0)
            return gs_fail(GS_E_USAGE,
                           "--exact: device '%s': only cpu is known to give the same bits for the same "
                           "samples; wanted --devices cpu,...",
                           name);
    }
    if (s->threads > 1)
        return gs_fail(GS_E_USAGE,
                       "--exact: --threads %d: how products are cut over threads changes their bits; wanted "
                       "1 thread a worker",
                       s->threads);
    if (s->accumulate > 1)
        return gs_fail(GS_E_USAGE, "--exact cuts the batch in a way of its own: it does not go with "
                                   "--accumulate");
    if (strcmp(s->sync, gs_settings_default().sync) != 0)
        return gs_fail(GS_E_USAGE, "--exact adds in an order of its own: it does not go with --sync %s",
                       s->sync);
    return GS_OK;
}

/* --sync sharded-update has a reduce-scatter and an all-gather of its own. */
static gs_status check_sharded(const gs_settings *s) {
    if (!gs_is_sharded(s)) return GS_OK;
    if (s->bucket)
        return gs_fail(
            GS_E_USAGE,
            "--sync sharded-update cuts the gradients among the workers, not by layers: it does not "
            "go with --bucket");
    if (s->wire != GS_WIRE_F32)
        return gs_fail(
            GS_E_USAGE,
            "--sync sharded-update sends weights too, which must not be rounded; it does not go with "
            "--wire %s",
            gs_wire_name(s->wire));
    return GS_OK;
}

static gs_status check_lr_rule(const gs_settings *s) {
    if (s->lr_rule != GS_LR_NONE) return GS_OK;
    if (s->base_batch)
        return gs_fail(GS_E_USAGE,
                       "--base-batch %llu wants --lr-rule linear or sqrt: without a rule the "
                       "learning rate does not follow the batch",
                       (unsigned long long)s->base_batch);
    if (s->warmup > 0)
        return gs_fail(GS_E_USAGE,
                       "--warmup %g wants --lr-rule linear or sqrt: without a rule there is no "
                       "higher learning rate to warm up to",
                       s->warmup);
    return GS_OK;
}

gs_lr_plan gs_rates_of(const gs_settings *s, size_t batch, size_t samples) {
    uint64_t base = s->base_batch ? s->base_batch : GS_BASE_BATCH;
    size_t steps = (samples + batch - 1) / batch;
    return gs_lr_plan_of(s->lr_rule, (double)s->lr, (double)batch, (double)base, s->warmup, (double)steps);
}

/* --wire: what it means where gradients are not summed in one of the schemes. */
static gs_status check_wire(const gs_settings *s) {
    const char *name = gs_wire_name(s->wire);
    if (s->wire == GS_WIRE_F32) return GS_OK;
    if (s->exact)
        return gs_fail(GS_E_USAGE,
                       "--exact: the same bits for any number of workers cannot be had from values "
                       "that are rounded on the way; it does not go with --wire %s",
                       name);
    if (gs_is_local(s))
        return gs_fail(GS_E_USAGE,
                       "--sync local sends weights, which must not be rounded; it does not go with "
                       "--wire %s",
                       name);
    if (gs_is_async(s))
        return gs_fail(GS_E_USAGE,
                       "--sync async sends weights too, which must not be rounded; it does not go "
                       "with --wire %s",
                       name);
    return GS_OK;
}

/* --bucket: only where there is one sum of gradients in each step. */
static gs_status check_bucket(const gs_settings *s) {
    if (!s->bucket) return GS_OK;
    if (s->exact)
        return gs_fail(GS_E_USAGE,
                       "--exact adds in one fixed tree after backward: it does not go with --bucket");
    if (gs_is_local(s) || gs_is_async(s))
        return gs_fail(GS_E_USAGE,
                       "--bucket: with --sync %s gradients are not summed in each step, so there is "
                       "nothing to sum during backward",
                       s->sync);
    return GS_OK;
}

gs_status gs_check_settings(const gs_settings *s) {
    GS_TRY(check_bucket(s));
    GS_TRY(check_wire(s));
    GS_TRY(check_lr_rule(s));
    if (s->exact) GS_TRY(check_exact(s));
    GS_TRY(check_sharded(s));
    GS_TRY(check_local(s));
    return check_async(s);
}

gs_status gs_check_workers(const gs_settings *s, int workers) {
    if (s->exact && GS_EXACT_SHARDS % workers != 0)
        return gs_fail(GS_E_USAGE,
                       "--exact: there are %d workers; wanted 1, 2, 4 or 8, among which the %d virtual "
                       "shards of a batch can be divided evenly",
                       workers, GS_EXACT_SHARDS);
    if (s->slow.ms > 0 && s->slow.rank >= workers)
        return gs_fail(GS_E_USAGE, "--slow %d:%g: there is no worker %d; they are 0 to %d", s->slow.rank,
                       s->slow.ms, s->slow.rank, workers - 1);
    return GS_OK;
}
