#include "cli/cli.h"

#include <cjson/cJSON.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

const char *gs_modes_sum(const gs_settings *s) {
    static char text[80];
    if (s->every)
        snprintf(text, sizeof text, "weights averaged every %d step%s", s->every, s->every > 1 ? "s" : "");
    else if (s->staleness >= 0)
        snprintf(text, sizeof text, "gradients taken as they come (at most %d step%s ahead)", s->staleness,
                 s->staleness == 1 ? "" : "s");
    else if (s->exact)
        snprintf(text, sizeof text, "gradients summed in one fixed tree");
    else if (strcmp(s->sync, "sharded-update") == 0)
        snprintf(text, sizeof text, "each updates its part of the weights");
    else
        snprintf(text, sizeof text, "gradients summed by %s", s->sync);
    return text;
}

void gs_modes_print_rates(const gs_settings *s, const gs_worker *w) {
    if (s->lr_rule == GS_LR_NONE) return;
    const gs_lr_plan *p = &w->rates;
    uint64_t base = s->base_batch ? s->base_batch : GS_BASE_BATCH;
    bool root = s->lr_rule == GS_LR_SQRT;
    printf("rate     lr %.4g (%s rule: %g x %s%zu/%" PRIu64 "%s)", p->scaled, gs_lr_rule_name(s->lr_rule),
           (double)s->lr, root ? "sqrt(" : "", w->batch, base, root ? ")" : "");
    if (p->warmup > 0) printf(", after a warm-up from %.4g over %g steps", p->first, p->warmup);
    if (s->warmup > 0 && !(p->warmup > 0)) printf("; not higher: no warm-up");
    printf("\n");
}

void gs_modes_json_rates(const gs_settings *s, const gs_worker *w, cJSON *o) {
    cJSON_AddStringToObject(o, "lr_rule", gs_lr_rule_name(s->lr_rule));
    cJSON_AddNumberToObject(o, "base_batch", (double)(s->base_batch ? s->base_batch : GS_BASE_BATCH));
    cJSON_AddNumberToObject(o, "lr_first", w->rates.first);
    cJSON_AddNumberToObject(o, "lr_scaled", w->rates.scaled);
    cJSON_AddNumberToObject(o, "warmup_steps", w->rates.warmup);
}

void gs_modes_print(const gs_settings *s, int workers) {
    if (s->bucket && workers > 1)
        printf("buckets  of at least %d KB, summed while backward goes on with earlier layers\n", s->bucket);
    if (s->wire != GS_WIRE_F32 && workers > 1)
        printf("wire     gradients travel as %s; they are summed in f32\n", gs_wire_name(s->wire));
    if ((s->bucket || s->wire != GS_WIRE_F32) && workers == 1)
        printf("alone    one worker has nobody to sum with: --bucket and --wire change nothing\n");
    if (s->accumulate > 1)
        printf("passes   %d over each worker's part of the batch before one sum\n", s->accumulate);
    if (s->slow.ms > 0) printf("slow     worker %d sleeps %g ms in each step\n", s->slow.rank, s->slow.ms);
    if (s->throttle > 0)
        printf("throttle each worker's loader brings %g MB of samples a second\n", s->throttle);
    if (s->exact) printf("exact    the same bits for 1, 2, 4 and 8 workers on this kind of CPU\n");
    if (s->verify)
        printf("verify   all workers' weights are compared every %" PRIu64 " step%s\n", s->verify,
               gs_s(s->verify));
}

void gs_modes_json(const gs_settings *s, cJSON *o) {
    cJSON_AddNumberToObject(o, "bucket_kb", s->bucket);
    cJSON_AddStringToObject(o, "wire", gs_wire_name(s->wire));
    cJSON_AddBoolToObject(o, "exact", s->exact);
    cJSON_AddNumberToObject(o, "verify", (double)s->verify);
    cJSON_AddNumberToObject(o, "accumulate", s->accumulate > 1 ? s->accumulate : 1);
    s->every ? cJSON_AddNumberToObject(o, "every", s->every) : cJSON_AddNullToObject(o, "every");
    s->staleness >= 0 ? cJSON_AddNumberToObject(o, "staleness_bound", s->staleness)
                      : cJSON_AddNullToObject(o, "staleness_bound");
    cJSON_AddNumberToObject(o, "slow_rank", s->slow.rank);
    cJSON_AddNumberToObject(o, "slow_ms", s->slow.ms);
    s->throttle > 0 ? cJSON_AddNumberToObject(o, "throttle_mb_per_s", s->throttle)
                    : cJSON_AddNullToObject(o, "throttle_mb_per_s");
}

/* ---- the end ---- */

/* "   3 .. 5     412   43.1 %  =========": at most LINES lines */
static void print_distribution(const uint64_t *count, size_t n) {
    enum { LINES = 12, BAR = 40 };
    size_t width = (n + LINES - 1) / LINES;
    uint64_t all = 0;
    for (size_t i = 0; i < n; i++) all += count[i];
    for (size_t i = 0; i < n && all > 0; i += width) {
        uint64_t here = 0;
        char range[32], bar[BAR + 1];
        for (size_t k = i; k < n && k < i + width; k++) here += count[k];
        double share = (double)here / (double)all;
        int filled = (int)(share * BAR + 0.5);
        for (int k = 0; k < BAR; k++) bar[k] = k < filled ? '=' : 0;
        bar[BAR] = 0;
        if (width == 1)
            snprintf(range, sizeof range, "%zu", i);
        else
            snprintf(range, sizeof range, "%zu..%zu", i, i + width - 1);
        printf("%14s %9" PRIu64 " %5.1f %%  %s\n", range, here, 100 * share, bar);
    }
}

static double mean_of(const uint64_t *count, size_t n) {
    double sum = 0, all = 0;
    for (size_t i = 0; i < n; i++) {
        sum += (double)i * (double)count[i];
        all += (double)count[i];
    }
    return all > 0 ? sum / all : 0;
}

void gs_modes_print_end(const gs_result *r) {
    const gs_staleness *s = &r->staleness;
    if (r->sent > 0) printf("sent     %s bytes a step by each worker", gs_thousands(r->sent));
    if (r->sent > 0 && r->sent_most > r->sent + 0.5)
        printf(" on average, %s by the busiest", gs_thousands(r->sent_most));
    if (r->sent > 0) printf("\n");
    if (r->overlap.buckets > 0)
        printf("overlap  %d bucket%s; %.0f %% of the time of their sums hidden behind backward\n"
               "         (a step: sums %.3f ms, waited for after backward %.3f ms)\n",
               r->overlap.buckets, r->overlap.buckets > 1 ? "s" : "", 100 * gs_overlap_hidden(r->overlap),
               1e3 * r->overlap.summed, 1e3 * r->overlap.waited);
    if (!s->count) return;
    printf("stale    gradients by how many of others came after their weights were read\n");
    print_distribution(s->count, s->counts);
    printf("ahead    steps by how far ahead of the slowest worker they were begun\n");
    print_distribution(s->lead, s->leads);
    printf("mean     staleness %.2f, %.2f steps ahead\n", mean_of(s->count, s->counts),
           mean_of(s->lead, s->leads));
}

static void add_array(cJSON *o, const char *name, const uint64_t *count, size_t n) {
    cJSON *array = cJSON_AddArrayToObject(o, name);
    for (size_t i = 0; i < n; i++) cJSON_AddItemToArray(array, cJSON_CreateNumber((double)count[i]));
}

void gs_modes_json_end(const gs_result *r, cJSON *o) {
    const gs_staleness *s = &r->staleness;
    if (r->sent > 0) {
        cJSON_AddNumberToObject(o, "sent_bytes_a_step", r->sent);
        cJSON_AddNumberToObject(o, "sent_bytes_a_step_most", r->sent_most);
    }
    if (r->overlap.buckets > 0) {
        cJSON_AddNumberToObject(o, "buckets", r->overlap.buckets);
        cJSON_AddNumberToObject(o, "buckets_summed_ms", 1e3 * r->overlap.summed);
        cJSON_AddNumberToObject(o, "buckets_waited_ms", 1e3 * r->overlap.waited);
        cJSON_AddNumberToObject(o, "hidden", gs_overlap_hidden(r->overlap));
    }
    if (!s->count) return;
    add_array(o, "staleness", s->count, s->counts);
    add_array(o, "steps_ahead", s->lead, s->leads);
}
