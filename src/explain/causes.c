#include "explain/causes.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/text.h"

static const struct {
    int first, last; /* kinds */
    const gs_cause *causes;
} tables[] = {
    {GS_DIGEST_samples, GS_DIGEST_own, gs_causes_of_samples},
    {GS_DIGEST_weight, GS_DIGEST_weight, gs_causes_of_weights},
    {GS_DIGEST_x, GS_DIGEST_x, gs_causes_of_samples},
    {GS_DIGEST_y, GS_DIGEST_mask, gs_causes_of_forward},
    {GS_DIGEST_dy, GS_DIGEST_dy, gs_causes_of_loss},
    {GS_DIGEST_dw, GS_DIGEST_dx, gs_causes_of_backward},
    {GS_DIGEST_sum, GS_DIGEST_sum, gs_causes_of_sum},
    {GS_DIGEST_vector0, GS_DIGEST_state, gs_causes_of_update},
    {GS_DIFFERS_lr, GS_DIFFERS_KINDS - 1, gs_causes_of_scores},
};
enum { TABLES = sizeof tables / sizeof *tables };

static const char *const titles[] = {
#define GS_TITLE(name, title) title,
    GS_DIGEST_KINDS(GS_TITLE)
#undef GS_TITLE
        "learning rate",
    "loss",
    "number of samples",
    "norm of the gradient",
    "factor of the gradient",
    "loss scale",
    "number of updates"};
_Static_assert(sizeof titles / sizeof *titles == GS_DIFFERS_KINDS, "a title for each quantity");

/* ---- where ---- */

static void name_place(const gs_digests *b, gs_difference *d) {
    snprintf(d->quantity, sizeof d->quantity, "%s", titles[d->kind]);
    if (d->kind == GS_DIGEST_y || d->kind == GS_DIGEST_dx) {
        const gs_layer_name *l = &b->layer[d->number];
        snprintf(d->where, sizeof d->where, "layer %s (%s)", l->name, l->op);
    } else if (d->kind == GS_DIGEST_weight || d->kind == GS_DIGEST_dw ||
               (d->kind >= GS_DIGEST_sum && d->kind <= GS_DIGEST_state)) {
        const gs_param_name *p = &b->param[d->number];
        snprintf(d->where, sizeof d->where, "%s (%s)%s", p->name, b->layer[p->layer].op,
                 d->part ? ", in the layer that borrows it" : "");
    }
}

void gs_causes_name(const gs_digests *a, const gs_digests *b, gs_difference *d) {
    const gs_case c = {a, b, d};
    name_place(b, d);
    d->cause = "unknown";
    gs_say(&c, "it is like none of the mistakes that this program knows");
    for (int t = 0; t < TABLES; t++) {
        if (d->kind < tables[t].first || d->kind > tables[t].last) continue;
        for (const gs_cause *cause = tables[t].causes; cause->name; cause++) {
            if (!cause->is(&c)) continue;
            d->cause = cause->name;
            return;
        }
    }
}

/* ---- what the questions are made of ---- */

bool gs_say(const gs_case *c, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(c->d->sentence, sizeof c->d->sentence, format, args);
    va_end(args);
    return true;
}

int gs_ranks_of(const gs_case *c, int *first) {
    int count = 0;
    for (int r = 0; r < c->a->workers; r++)
        if (c->d->rank[r] && count++ == 0 && first) *first = r;
    return count;
}

const char *gs_ranks_text(const gs_case *c) {
    static _Thread_local char text[200];
    const int count = gs_ranks_of(c, NULL);
    int told = 0;
    if (count == 0) return "some ranks";
    if (count == c->a->workers) return c->a->workers == 1 ? "rank 0" : "all ranks";
    snprintf(text, sizeof text, "rank%s ", count > 1 ? "s" : "");
    for (int r = 0; r < c->a->workers; r++) {
        if (!c->d->rank[r]) continue;
        gs_append(text, sizeof text, "%s%d", told == 0 ? "" : told + 1 == count ? " and " : ", ", r);
        told++;
    }
    return text;
}

double gs_batch_of(const gs_case *c) {
    return gs_digests_score(c->b, 0, c->d->step)->samples;
}

double gs_passes_of(const gs_digests *d) {
    const int accumulate = gs_digests_count(d, "accumulate"), micro = gs_digests_count(d, "micro-batches"),
              stages = gs_digests_count(d, "pipeline");
    if (stages > 1) return micro > 0 ? micro : 4 * stages;
    return accumulate > 1 ? accumulate : 1;
}

double gs_parts_of_batch(const gs_digests *d) {
    const int stages = gs_digests_count(d, "pipeline"), parts = gs_digests_count(d, "tensor");
    return (double)d->workers / (stages > 1 ? stages : 1) / (parts > 1 ? parts : 1);
}
