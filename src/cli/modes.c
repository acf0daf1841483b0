#include "cli/cli.h"
#include "io/json.h"

#include <inttypes.h>
#include <stdio.h>

const char *gs_modes_sum(const gs_settings *s) {
    static char text[80];
    const gs_way *way = gs_way_of(s);
    if (way->describe) way->describe(s, text, sizeof text);
    return way->describe ? text : way->summary;
}

/* What follows the warm-up. */
static void print_schedule(const gs_lr_course *c) {
    const gs_lr_schedule *s = &c->schedule;
    if (gs_lr_schedule_falls(s))
        printf("; %s to %g at step %.0f", s->kind == GS_SCHEDULE_COSINE ? "along a cosine" : "linearly",
               c->final_lr, c->steps);
    for (int i = 0; i < s->drops; i++)
        printf("%s %g", i > 0 ? "," : s->drops > 1 ? "; after epochs" : "; after epoch", s->drop[i]);
    if (s->drops > 0) printf(" x %g", s->factor);
}

void gs_modes_print_rates(const gs_settings *s, const gs_worker *w) {
    const gs_lr_course *c = &w->rates;
    const gs_lr_plan *p = &c->plan;
    const bool ruled = s->lr_rule != GS_LR_NONE, root = s->lr_rule == GS_LR_SQRT;
    uint64_t base = s->base_batch ? s->base_batch : GS_BASE_BATCH;
    if (!ruled && !(c->warmup > 0) && s->schedule.kind == GS_SCHEDULE_CONSTANT) return;
    printf("rate     lr %.4g", p->scaled);
    if (ruled)
        printf(" (%s rule: %g x %s%zu/%" PRIu64 "%s)", gs_lr_rule_name(s->lr_rule),
               (double)gs_settings_numbers(s).lr, root ? "sqrt(" : "", w->batch, base, root ? ")" : "");
    if (p->warmup > 0) printf(", after a warm-up from %.4g over %g steps", p->first, p->warmup);
    if (!ruled && c->warmup > 0) printf(", after a warm-up over %g steps", c->warmup);
    if ((s->warmup > 0 || s->warmup_steps) && !(c->warmup > 0)) printf("; not higher: no warm-up");
    print_schedule(c);
    printf("\n");
}

void gs_modes_print(const gs_settings *s, int workers) {
    char link[80], augment[GS_AUGMENT_TEXT];
    if (s->bucket && workers > 1)
        printf("buckets  of at least %d KB, summed while backward continues with earlier layers\n",
               s->bucket);
    if (s->wire != GS_WIRE_F32 && workers > 1)
        printf("wire     gradients travel as %s; they are summed in f32\n", gs_wire_name(s->wire));
    if ((s->bucket || s->wire != GS_WIRE_F32 || gs_link_is_there(&s->link)) && workers == 1)
        printf("alone    one worker has nobody to sum with: --bucket, --wire and --link change nothing\n");
    if (s->clip > 0) printf("clip     gradients are shortened to a norm of at most %g\n", (double)s->clip);
    if (s->accumulate > 1)
        printf("passes   %d over each worker's part of the batch before one sum\n", s->accumulate);
    if (s->slow.ms > 0) printf("slow     worker %d sleeps %g ms in each step\n", s->slow.rank, s->slow.ms);
    for (int i = 0; i < s->jitter.count; i++) {
        const gs_pause *p = &s->jitter.pause[i];
        printf("jitter   worker %d pauses %g ms in %g %% of its steps\n", p->rank, 1e3 * p->seconds,
               100 * p->share);
    }
    if (gs_link_is_there(&s->link) && workers > 1)
        printf("link     %s: a message takes that latency, and its bytes at that rate\n",
               gs_link_text(&s->link, link, sizeof link));
    if (gs_augment_is_on(&s->augment))
        printf("augment  %s, drawn for each training image in each epoch\n",
               gs_augment_text(&s->augment, augment, sizeof augment));
    if (s->throttle > 0)
        printf("throttle each worker's loader supplies %g MB of samples per second\n", s->throttle);
    if (gs_way_of(s)->promise) printf("%s\n", gs_way_of(s)->promise);
    if (s->verify)
        printf("verify   all workers' weights are compared every %" PRIu64 " step%s\n", s->verify,
               gs_s(s->verify));
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
        size_t last = (i + width < n ? i + width : n) - 1;
        int filled = (int)(share * BAR + 0.5);
        for (int k = 0; k < BAR; k++) bar[k] = k < filled ? '=' : 0;
        bar[BAR] = 0;
        if (last == i)
            snprintf(range, sizeof range, "%zu", i);
        else
            snprintf(range, sizeof range, "%zu..%zu", i, last);
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
    if (r->sent > 0 && r->sent_most > r->sent + 0.5)
        gs_print_fact("sent", "%s bytes per step by each worker on average, %s by the busiest",
                      gs_thousands(r->sent), gs_thousands(r->sent_most));
    else if (r->sent > 0)
        gs_print_fact("sent", "%s bytes per step by each worker", gs_thousands(r->sent));
    if (r->overlap.buckets > 0)
        printf("overlap  %d bucket%s; %.0f %% of their summing time hidden behind backward\n         (per "
               "step: sums %.3f ms, waited for after backward %.3f ms)\n",
               r->overlap.buckets, r->overlap.buckets > 1 ? "s" : "", 100 * gs_overlap_hidden(r->overlap),
               1e3 * r->overlap.summed, 1e3 * r->overlap.waited);
    if (!s->count) return;
    printf("stale    gradients, by how many others arrived after their weights were read\n");
    print_distribution(s->count, s->counts);
    printf("ahead    steps, by how far ahead of the slowest worker they began\n");
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
    if (r->sent > 0)
        GS_JSON_ADD(o, GS_FIELD("sent_bytes_a_step", r->sent),
                    GS_FIELD("sent_bytes_a_step_most", r->sent_most));
    if (r->overlap.buckets > 0)
        GS_JSON_ADD(o, GS_FIELD("buckets", r->overlap.buckets),
                    GS_FIELD("buckets_summed_ms", 1e3 * r->overlap.summed),
                    GS_FIELD("buckets_waited_ms", 1e3 * r->overlap.waited),
                    GS_FIELD("hidden", gs_overlap_hidden(r->overlap)));
    if (!s->count) return;
    add_array(o, "staleness", s->count, s->counts);
    add_array(o, "steps_ahead", s->lead, s->leads);
}
