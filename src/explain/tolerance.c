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

void gs_tolerance_next(gs_tolerance *t) {
    t->before = t->backward;
    t->seen = 0;
    gs_tolerance_saw(t, GS_DIGEST_weight, 0);
}

void gs_tolerance_saw(gs_tolerance *t, int kind, double share) {
    const bool backward = kind == GS_DIGEST_dw || kind == GS_DIGEST_dx;
    const bool counts = kind == GS_DIGEST_weight || kind == GS_DIGEST_x || kind == GS_DIGEST_y ||
                        kind == GS_DIGEST_dy || (backward && t->kinks == 0);
    if (!counts) return;
    t->seen = fmax(t->seen, share);
    const double enlarged = fmax(t->rounding, 10 * t->seen);
    if (!backward) t->forward = enlarged;
    t->backward = fmax(t->before, enlarged);
    if (t->kinks > 0) t->backward = fmax(t->backward, fmax(0.25, 4 * sqrt(t->kinks * t->seen / 3)));
}

double gs_tolerance_of(const gs_tolerance *t, int kind) {
    switch (kind) {
    case GS_DIGEST_x:
    case GS_DIGEST_y:
    case GS_DIGEST_dy:
    case GS_DIGEST_state:
    case GS_DIFFERS_loss:
        return t->forward;
    case GS_DIGEST_dw:
    case GS_DIGEST_dx:
    case GS_DIGEST_vector0:
    case GS_DIFFERS_norm:
    case GS_DIFFERS_scale:
        return t->backward;
    case GS_DIGEST_vector1:
        return 2 * t->backward;
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
    return (t->divides ? 2 : updated ? t->backward : t->before) * path;
}
