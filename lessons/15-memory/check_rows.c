/* Lesson 15: the checks of 15.3 to 15.5. The expected results come from simulated steps, not from formulas. */
#include "check.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST_LAYERS = 13 };

/* ---- 15.3 ---- */

typedef struct row_case {
    int layers;
    size_t y[MOST_LAYERS];
    double flops[MOST_LAYERS];
} row_case;

static const char *text_of(const row_case *k) {
    static char text[300];
    snprintf(text, sizeof text, "%d layer%s, y of", k->layers, gs_s((size_t)k->layers));
    for (int i = 0; i < k->layers; i++) lab_append(text, sizeof text, " %zu", k->y[i]);
    lab_append(text, sizeof text, ", operations");
    for (int i = 0; i < k->layers; i++) lab_append(text, sizeof text, " %g", k->flops[i]);
    return text;
}

/* A step: forward, then backward of each segment, the last first. there[i]: y of layer i is in memory. */
static size_t run_step(const row_case *c, int k, double *again) {
    bool there[MOST_LAYERS] = {false};
    size_t most = 0;
    double all = 0, twice = 0;
    for (int end = c->layers; end > 0;) {
        const int first = (end - 1) / k * k;
        size_t sum = 0;
        for (int i = 0; i < c->layers; i++) {
            there[i] = (i % k == k - 1 || i == c->layers - 1) || (i >= first && i < end);
            sum += there[i] ? c->y[i] : 0;
        }
        for (int i = first; i < end - 1 && end < c->layers; i++) twice += c->flops[i];
        if (sum > most) most = sum;
        end = first;
    }
    for (int i = 0; i < c->layers; i++) all += c->flops[i];
    *again = twice / all;
    return most;
}

static gs_status check_row(const row_case *c) {
    const row r = {c->layers, c->y, c->flops};
    double again, least_again = 0;
    size_t least = 0;
    int best = 0;
    for (int k = 1; k <= c->layers; k++) {
        const size_t wanted = run_step(c, k, &again);
        double got_again = -1;
        const size_t got = recompute_peak(&r, k, &got_again);
        LAB_CHECK(got == wanted, "%s, k = %d: got a peak of %zu, expected %zu", text_of(c), k, got, wanted);
        LAB_CHECK(fabs(got_again - again) <= 1e-9,
                  "%s, k = %d: got a share of %.6g that is computed again, expected %.6g", text_of(c), k,
                  got_again, again);
        if (best == 0 || wanted < least || (wanted == least && again < least_again))
            best = k, least = wanted, least_again = again;
    }
    const int got = best_segment(&r);
    LAB_CHECK_HINT(got == best, "try all k from 1 on; among equal peaks take the k that computes less again.",
                   "%s: got %d as the best k, expected %d", text_of(c), got, best);
    return GS_OK;
}

gs_status lab_check_recompute(void) {
    static const row_case cases[] = {
        {1, {5}, {1}},
        {2, {5, 3}, {1, 2}},
        {4, {1, 1, 1, 1}, {1, 1, 1, 1}},
        {9, {1, 1, 1, 1, 1, 1, 1, 1, 1}, {1, 1, 1, 1, 1, 1, 1, 1, 1}},
        {5, {9, 1, 1, 4, 2}, {1, 2, 3, 4, 5}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) GS_TRY(check_row(&cases[i]));
    for (size_t i = 0; i < 20; i++) {
        row_case drawn = {.layers = 2 + (int)lab_pick(K_ROW, i, MOST_LAYERS - 1)};
        for (int j = 0; j < drawn.layers; j++) {
            const size_t unit = i < 14 ? 1 : 1000000000; /* large networks: too large for an int */
            drawn.y[j] = unit * (1 + lab_pick(Y_ROW, MOST_LAYERS * i + (size_t)j, 6));
            drawn.flops[j] = (double)(unit * (1 + lab_pick(FLOPS_ROW, MOST_LAYERS * i + (size_t)j, 9)));
        }
        GS_TRY(check_row(&drawn));
    }
    return GS_OK;
}

/* ---- 15.4 ---- */

typedef struct offload_case {
    int layers, buffers;
    double seconds[MOST_LAYERS], bytes[MOST_LAYERS], bandwidth;
} offload_case;

/* Simulates whole seconds: at most one layer and one copy run at a time. check_forward also scales them to quarters. */
static void run_forward(const offload_case *c, double *copied, double *done) {
    int layer = 0, copy = 0, computed = 0; /* layers begun or done; copies done; layers done */
    double layer_left = 0, copy_left = 0;
    bool computing = false, copying = false;
    for (double now = 0; copy < c->layers; now += 1) {
        if (!copying && copy < computed) copying = true, copy_left = c->bytes[copy] / c->bandwidth;
        if (!computing && layer < c->layers && layer - c->buffers < copy)
            computing = true, layer_left = c->seconds[layer++];
        if (computing && --layer_left <= 0) computing = false, computed++, *done = now + 1;
        if (copying && --copy_left <= 0) copying = false, copied[copy++] = now + 1;
    }
}

static gs_status check_forward(const offload_case *whole, double second) {
    offload_case made = *whole, *c = &made;
    for (int i = 0; i < c->layers; i++) c->seconds[i] *= second, c->bytes[i] *= second;
    const offload o = {c->layers, c->buffers, c->seconds, c->bytes, c->bandwidth};
    double wanted[MOST_LAYERS] = {0}, got[MOST_LAYERS], done = 0;
    char text[400];
    snprintf(text, sizeof text, "%d buffer%s, %g byte%s/s, layers of", c->buffers, gs_s((size_t)c->buffers),
             c->bandwidth, gs_s((size_t)c->bandwidth));
    for (int i = 0; i < c->layers; i++)
        lab_append(text, sizeof text, "%s %g s and %g bytes", i > 0 ? "," : "", c->seconds[i], c->bytes[i]);
    for (int i = 0; i < c->layers; i++) got[i] = -1;
    run_forward(whole, wanted, &done);
    for (int i = 0; i < c->layers; i++) wanted[i] *= second;
    done *= second;
    const double over = offload_forward(&o, got);
    for (int i = 0; i < c->layers; i++)
        LAB_CHECK(fabs(got[i] - wanted[i]) <= 1e-9, "%s: the copy of layer %d ends after %g s, expected %g s",
                  text, i, got[i], wanted[i]);
    LAB_CHECK(fabs(over - done) <= 1e-9, "%s: the last layer is done after %g s, expected %g s", text, over,
              done);
    return GS_OK;
}

gs_status lab_check_offload(void) {
    static const offload_case cases[] = {
        {1, 1, {3}, {2}, 1},
        {2, 2, {3, 3}, {2, 2}, 1},       /* hidden */
        {2, 1, {3, 3}, {2, 2}, 1},       /* one buffer hides nothing */
        {3, 2, {1, 1, 1}, {4, 4, 4}, 1}, /* copies are slower than layers */
        {3, 2, {1, 1, 1}, {4, 4, 4}, 2},
        {3, 3, {1, 5, 1}, {2, 2, 2}, 1}, /* a copy waits for its layer */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) GS_TRY(check_forward(&cases[i], 1));
    for (size_t i = 0; i < 60; i++) {
        offload_case drawn = {.layers = 1 + (int)lab_pick(BUFFERS_ROW, 3 * i, MOST_LAYERS - 4),
                              .buffers = 1 + (int)lab_pick(BUFFERS_ROW, 3 * i + 1, 4),
                              .bandwidth = (double)(1 + lab_pick(BUFFERS_ROW, 3 * i + 2, 3))};
        for (int j = 0; j < drawn.layers; j++) {
            drawn.seconds[j] = (double)(1 + lab_pick(SECONDS_ROW, MOST_LAYERS * i + (size_t)j, 6));
            drawn.bytes[j] =
                drawn.bandwidth * (double)(1 + lab_pick(BYTES_ROW, MOST_LAYERS * i + (size_t)j, 6));
        }
        GS_TRY(check_forward(&drawn, i < 40 ? 1 : 0.25));
    }
    return GS_OK;
}

/* ---- 15.5 ---- */

static gs_status check_scale(gs_loss_scale s, bool finite) {
    gs_loss_scale got = s, wanted = {.scale = s.scale, .used = s.scale, .skipped = !finite, .skips = s.skips};
    if (finite) {
        wanted.good = s.good + 1;
        if (wanted.good >= GS_LOSS_SCALE_STEPS) {
            wanted.good = 0;
            if (s.scale < GS_LOSS_SCALE_MOST) wanted.scale = 2 * s.scale;
        }
    } else {
        wanted.skips++;
        if (s.scale > GS_LOSS_SCALE_LEAST) wanted.scale = s.scale / 2;
    }
    gs_loss_scale_step(&got, finite);
    char text[120];
    snprintf(text, sizeof text, "scale %g, %u good, %llu skipped; a step that is %sfinite", (double)s.scale,
             s.good, (unsigned long long)s.skips, finite ? "" : "not ");
    LAB_CHECK(got.scale == wanted.scale && got.good == wanted.good,
              "%s: got scale %g, good %u; expected %g, %u", text, (double)got.scale, got.good,
              (double)wanted.scale, wanted.good);
    LAB_CHECK(got.used == wanted.used && got.skipped == wanted.skipped && got.skips == wanted.skips,
              "%s: got used %g, skipped %d, skips %llu; expected %g, %d, %llu", text, (double)got.used,
              got.skipped, (unsigned long long)got.skips, (double)wanted.used, wanted.skipped,
              (unsigned long long)wanted.skips);
    return GS_OK;
}

gs_status lab_check_loss_scale(void) {
    static const float scales[] = {GS_LOSS_SCALE_FIRST, GS_LOSS_SCALE_LEAST, GS_LOSS_SCALE_MOST, 1, 2048};
    static const uint32_t good[] = {0, 5, GS_LOSS_SCALE_STEPS - 2, GS_LOSS_SCALE_STEPS - 1};
    for (size_t i = 0; i < sizeof scales / sizeof *scales; i++)
        for (size_t j = 0; j < sizeof good / sizeof *good; j++)
            for (int finite = 1; finite >= 0; finite--) {
                const uint64_t skips = lab_pick(FINITE_ROW, 10 * i + j, 9);
                const gs_loss_scale before = {
                    .scale = scales[i], .good = good[j], .used = 1, .skipped = j % 2, .skips = skips};
                GS_TRY(check_scale(before, finite));
            }
    return GS_OK;
}
