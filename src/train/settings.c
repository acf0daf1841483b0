/* Which settings are allowed, and which go together: one place decides, before anything is computed. */
#include "train/internal.h"
#include "train/options/options.h"

#include <math.h>
#include <stdio.h>

/* ---- each setting by itself ---- */

/* What the command line says of such a value. */
static gs_status is_not(const gs_run_option *o, const char *value) {
    char wanted[96];
    return gs_fail(GS_E_USAGE, "--%s: '%s' is not %s", o->name, value,
                   gs_option_wanted(o->kind, o->min, o->max, wanted, sizeof wanted));
}

/* A default may lie outside of what can be typed: it is off, or found out later (NAN). */
static gs_status check_number(const gs_run_option *o, const void *value) {
    double x = gs_option_number(o->kind, value);
    bool allowed = x >= o->min && x <= o->max;
    bool all = o->kind == GS_OPTION_BATCH && *(const size_t *)value == 0;
    bool usual = isnan(o->usual) ? isnan(x) : x >= o->usual && x <= o->usual;
    char text[64];
    return allowed || all || usual ? GS_OK : is_not(o, gs_option_text(o->kind, value, text, sizeof text));
}

static gs_status needs_value(const gs_run_option *o) {
    return gs_fail(GS_E_USAGE, "--%s needs a value: %s", o->name, o->argument);
}

/* A text without a default may be NULL; so may the name of data that come from memory. */
static gs_status check_text(const gs_settings *s, const gs_run_option *o, const char *text) {
    bool data_in_memory = o->at == offsetof(gs_settings, data) && (s->train_set || s->test_set);
    return text || !o->usual_text || data_in_memory ? GS_OK : needs_value(o);
}

static gs_status check_name(const gs_run_option *o, const void *value) {
    char text[64];
    if (gs_option_has_name(o->kind, value)) return GS_OK;
    if (o->kind == GS_OPTION_OPTIM) return needs_value(o);
    return gs_fail(GS_E_USAGE, "unknown --%s '%s'; choose one of: %s", o->name,
                   gs_option_text(o->kind, value, text, sizeof text), gs_option_names_of(o->kind)->wanted);
}

static gs_status check_slow(const gs_run_option *o, const gs_slow *slow) {
    char text[64];
    if (slow->rank >= 0 && slow->ms >= 0 && slow->ms <= 1e6) return GS_OK;
    snprintf(text, sizeof text, "%d:%g", slow->rank, slow->ms);
    return is_not(o, text);
}

static gs_status check_range(const gs_run_option *o, const gs_step_range *r) {
    char text[64];
    if (r->first ? r->first <= r->last : !r->last) return GS_OK;
    return is_not(o, gs_option_text(o->kind, r, text, sizeof text));
}

gs_status gs_check_each_setting(const gs_settings *s) {
    for (const gs_run_option *o = gs_run_table; o->name; o++) {
        const void *value = (const char *)s + o->at;
        /* GRADSUM_TIMEOUT is not limited to the range of --timeout: see below */
        if (o->at == offsetof(gs_settings, timeout)) continue;
        /* of two options for one field the one with its name: --devices */
        if (o[1].name && o->at == o[1].at) continue;
        if (gs_option_is_number(o->kind)) GS_TRY(check_number(o, value));
        if (gs_option_names_of(o->kind)) GS_TRY(check_name(o, value));
        if (o->kind == GS_OPTION_TEXT) GS_TRY(check_text(s, o, *(const char *const *)value));
        if (o->kind == GS_OPTION_SLOW) GS_TRY(check_slow(o, value));
        if (o->kind == GS_OPTION_RANGE) GS_TRY(check_range(o, value));
    }
    if (!(s->timeout > 0) || isinf(s->timeout))
        return gs_fail(GS_E_USAGE, "the timeout is %g s; it must be more than 0", s->timeout);
    if (s->tests < 0) return gs_fail(GS_E_USAGE, "tests is %d; wanted a whole number, at least 0", s->tests);
    return GS_OK;
}

/* ---- together ---- */

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
