/* Lesson 15: where the memory goes. tasks.h and README.md say what to write.
 *
 * This file and given.c replace the library's functions of src/layer/memory/arena.h and src/optim/loss_scale.h:
 * `build/lessons/15/gradsum train --recompute 4 --precision f16` places its buffers with lowest_place, and scales its
 * loss with gs_loss_scale_step. */
#include "tasks.h"

#include <math.h>

/* ---- the arena ---- */

size_t gs_lifetimes_peak(const gs_lifetimes *l) {
    size_t most = 0;
    /* task 15.1: the floats needed in a step can grow only where a buffer is born or resumes. So sum over these steps.
     * Beware of gaps. */
    for (size_t i = 0; i < 2 * l->count; i++) {
        int step = i % 2 ? l->life[i / 2].resume : l->life[i / 2].born;
        size_t sum = 0;
        for (size_t j = 0; j < l->count; j++) {
            const gs_lifetime *o = &l->life[j];
            bool first = o->born <= step && step <= o->pause, second = o->resume <= step && step <= o->dies;
            if (first || second) sum += o->floats;
        }
        if (sum > most) most = sum;
    }
    return most;
    /* end of task 15.1 */
}

size_t lowest_place(const gs_lifetime *it, gs_lifetime *const *placed, size_t count) {
    /* task 15.2: try offset 0. A buffer in the way gives the next offset to try. Go on until none is in the way. */
    size_t at = 0;
    for (size_t i = 0; i < count; i++) {
        const gs_lifetime *o = placed[i];
        if (!meet_in_time(it, o) || at + it->floats <= o->at || o->at + o->floats <= at) continue;
        at = o->at + o->floats;
        i = (size_t)-1; /* from the beginning: those that were not in the way may be now */
    }
    return at;
    /* end of task 15.2 */
}

/* ---- computing again ---- */

size_t recompute_peak(const row *r, int k, double *again) {
    size_t kept = 0, inner = 0, most = 0; /* inner: of this segment; most: of any */
    double all = 0, twice = 0;
    /* task 15.3: which layers are the last of their segment? Which segment is the last? */
    for (int i = 0; i < r->layers; i++) {
        bool last = i % k == k - 1 || i == r->layers - 1;
        if (i % k == 0) inner = 0;
        if (last)
            kept += r->y[i];
        else
            inner += r->y[i];
        if (inner > most) most = inner;
        all += r->flops[i];
        if (!last && i / k < (r->layers - 1) / k) twice += r->flops[i];
    }
    *again = twice / all;
    return kept + most;
    /* end of task 15.3 */
}

int best_segment(const row *r) {
    int best = 1;
    /* task 15.3: with recompute_peak. */
    double least_again, again;
    size_t least = recompute_peak(r, 1, &least_again);
    for (int k = 2; k <= r->layers; k++) {
        size_t peak = recompute_peak(r, k, &again);
        if (peak > least || (peak == least && again >= least_again)) continue;
        best = k, least = peak, least_again = again;
    }
    return best;
    /* end of task 15.3 */
}

/* ---- keeping elsewhere ---- */

double offload_forward(const offload *o, double *copied) {
    double done = 0; /* the previous layer */
    /* task 15.4: a layer waits for two things, and so does a copy. */
    for (int i = 0; i < o->layers; i++) {
        double begin = i >= o->buffers ? fmax(done, copied[i - o->buffers]) : done;
        done = begin + o->seconds[i];
        copied[i] = fmax(done, i > 0 ? copied[i - 1] : 0) + o->bytes[i] / o->bandwidth;
    }
    return done;
    /* end of task 15.4 */
}

/* ---- fewer bits ---- */

void gs_loss_scale_step(gs_loss_scale *s, bool finite) {
    /* task 15.5: record this step; then set the scale of the next step. */
    s->used = s->scale;
    s->skipped = !finite;
    s->skips += !finite;
    s->good = finite ? s->good + 1 : 0;
    if (!finite) s->scale = fmaxf(s->scale / 2, GS_LOSS_SCALE_LEAST);
    if (s->good < GS_LOSS_SCALE_STEPS) return;
    s->good = 0;
    s->scale = fminf(2 * s->scale, GS_LOSS_SCALE_MOST);
    /* end of task 15.5 */
}
