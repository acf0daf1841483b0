#include "explain/tolerance.h"

#include <math.h>
#include <string.h>

#include "explain/explain.h"
#include "explain/sums.h"

static double rounding_of(const gs_digests *d) {
    const char *wire = gs_digests_option(d, "wire"), *products = gs_digests_option(d, "precision");
    if (strcmp(wire, "bf16") == 0 || strcmp(products, "bf16") == 0) return 2e-2;
    if (strcmp(wire, "f16") == 0 || strcmp(products, "f16") == 0) return 3e-3;
    return 1e-4;
}

void gs_tolerance_begin(gs_tolerance *t, const gs_digests *a, const gs_digests *b) {
    const char *optimizer = gs_digests_option(b, "optimizer");
    *t = (gs_tolerance){.rounding = fmax(rounding_of(a), rounding_of(b))};
    t->divides = strncmp(optimizer, "adam", 4) == 0 || strcmp(optimizer, "lamb") == 0;
    for (int l = 0; l < b->layers; l++)
        t->kinks += strcmp(b->layer[l].op, "relu") == 0 || strcmp(b->layer[l].op, "max_pool2d") == 0;
}

static double forward_of(const gs_tolerance *t) {
    return fmax(t->rounding, 10 * t->forward);
}

static double backward_of(const gs_tolerance *t) {
    const double enlarged = fmax(forward_of(t), 10 * t->backward),
                 kinks = t->kinks > 0 ? fmax(0.25, 4 * sqrt(t->kinks * t->forward / 3)) : 0;
    return fmax(t->before, fmax(enlarged, kinks));
}

void gs_tolerance_next(gs_tolerance *t) {
    t->before = backward_of(t);
    t->forward = t->backward = 0;
}

void gs_tolerance_saw(gs_tolerance *t, int kind, double share) {
    if (kind == GS_DIGEST_weight || kind == GS_DIGEST_x || kind == GS_DIGEST_y || kind == GS_DIGEST_dy)
        t->forward = fmax(t->forward, share);
    if (t->kinks == 0 && (kind == GS_DIGEST_dw || kind == GS_DIGEST_dx))
        t->backward = fmax(t->backward, share);
}

double gs_tolerance_of(const gs_tolerance *t, int kind) {
    switch (kind) {
    case GS_DIGEST_x:
    case GS_DIGEST_y:
    case GS_DIGEST_dy:
    case GS_DIGEST_state:
    case GS_DIFFERS_loss:
        return forward_of(t);
    case GS_DIGEST_dw:
    case GS_DIGEST_dx:
    case GS_DIGEST_vector0:
    case GS_DIFFERS_norm:
    case GS_DIFFERS_scale:
        return backward_of(t);
    case GS_DIGEST_vector1:
        return 2 * backward_of(t);
    case GS_DIGEST_sum:
    case GS_DIGEST_weight:
    case GS_DIGEST_updated:
        return t->rounding;
    default:
        return GS_AS_WRITTEN;
    }
}

double gs_tolerance_of_path(const gs_tolerance *t, const gs_digests *b, uint64_t step, int kind, int p) {
    gs_numbers from, to;
    double path = 0;
    const bool updated = kind == GS_DIGEST_updated;
    if ((!updated && kind != GS_DIGEST_weight) || !gs_of_run(b, b->first, GS_DIGEST_weight, p, &from))
        return 0;
    for (uint64_t s = b->first + 1; s <= step && gs_of_run(b, s, GS_DIGEST_weight, p, &to); s++) {
        path += gs_apart(&from, &to);
        from = to;
    }
    if (updated && gs_of_run(b, step, kind, p, &to)) path += gs_apart(&from, &to);
    return (t->divides ? 2 : updated ? backward_of(t) : t->before) * path;
}
