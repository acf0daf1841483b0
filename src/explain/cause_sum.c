/* The sum of gradients, where the gradients that the ranks add are right. Least squares says which of them are in the
 * sum, and how often: summed dw = c_0 dw_0 + c_1 dw_1 + ..., over the tensors that differ. */
#include <math.h>

#include "core/text.h"
#include "explain/causes.h"

/* How often the gradient of each rank, or of each of its passes, is in the sum that c->rank has. */
typedef struct shares {
    bool found;
    int unknowns;
    double of[GS_FIT_MOST];
} shares;

static bool tensor_differs(const gs_case *c, int p, gs_sketch *a) {
    gs_sketch b;
    return gs_digest_of_rank(c->a, c->rank, c->step, GS_DIGEST_sum, p, 0, a) &&
           gs_digest_of_run(c->b, c->step, GS_DIGEST_sum, p, &b) &&
           gs_sketch_distance(a, &b) > 1e-4 * sqrt(b.squares);
}

static bool own_gradients(const gs_case *c, int p, gs_sketch *y, gs_sketch *x) {
    const int passes = (int)c->passes;
    for (int i = 0; i < c->a->workers * passes; i++)
        (void)gs_digest_total(c->a, i / passes, c->step, GS_DIGEST_dw, p,
                              passes > 1 ? i % passes : GS_ALL_PARTS, &x[i]);
    return tensor_differs(c, p, y);
}

/* passes 1: of each rank; else of each of its passes. */
static shares find_shares(const gs_case *c, int passes) {
    gs_case asked = *c;
    shares s = {.unknowns = c->a->workers * passes};
    asked.passes = passes;
    s.found = gs_fit_params(&asked, s.unknowns, own_gradients, 1e-2, s.of);
    return s;
}

static bool is(double share, double wanted) {
    return fabs(share - wanted) < 0.01 * fmax(1, fabs(wanted));
}

static int count_of(const shares *s, double wanted) {
    int count = 0;
    for (int i = 0; i < s->unknowns; i++) count += is(s->of[i], wanted);
    return count;
}

/* ---- ranks ---- */

/* Each rank is in the sum `times` times. */
static bool name_factor(const gs_case *c, double times) {
    if (c->a->workers > 1 && is(times, c->workers))
        return gs_name(
            c, "summed twice",
            "it is %.0f times too large, as many as there are ranks: it was summed over them twice", times);
    return c->a->workers > 1 && is(times * c->workers, 1) &&
           gs_name(c, "mean instead of sum", "it is divided by the %.0f ranks, and then by all samples again",
                   c->workers);
}

/* The rank has only its own gradient. */
static bool name_own(const gs_case *c) {
    int all = 0, differ = 0;
    char names[300] = "";
    for (int p = 0; p < c->a->params; p++) {
        gs_sketch a;
        if (c->a->param[p].state) continue;
        all++;
        if (!tensor_differs(c, p, &a)) continue;
        if (differ++ < 4) gs_append(names, sizeof names, "%s%s", *names ? ", " : "", c->a->param[p].name);
    }
    if (differ == all)
        return gs_name(c, "not summed", "rank %d has its own gradient in place of the sum", c->rank);
    return gs_name(c, "bucket missed",
                   "each rank has its own gradient of %s%s in place of the sum: a bucket was missed", names,
                   differ > 4 ? ", ..." : "");
}

/* If so, a rank is missing from the sum; groups would have different sums. */
static bool all_have_the_same(const gs_case *c) {
    gs_sketch other;
    for (int r = 0; r < c->a->workers; r++)
        if (!gs_digest_of_rank(c->a, r, c->step, GS_DIGEST_sum, c->number, 0, &other) ||
            !gs_sketch_alike(&c->mine, &other))
            return false;
    return true;
}

/* The ranks with this share: "1, 3". */
static const char *ranks_with(const shares *s, double wanted, char *text, size_t size) {
    *text = 0;
    for (int i = 0; i < s->unknowns; i++)
        if (is(s->of[i], wanted)) gs_append(text, size, "%s%d", *text ? ", " : "", i);
    return text;
}

/* Some ranks are in the sum 0 or 2 times, and the others once. */
static bool name_ranks(const gs_case *c, const shares *s, int times, const char *cause) {
    char ranks[300];
    const int count = count_of(s, times);
    return count > 0 && count + count_of(s, 1) == s->unknowns &&
           gs_name(c, cause, "the gradient%s of rank%s %s %s %sin the sum%s", count > 1 ? "s" : "",
                   count > 1 ? "s" : "", ranks_with(s, times, ranks, sizeof ranks), count > 1 ? "are" : "is",
                   times ? "" : "not ", times ? " twice" : "");
}

static bool are_clipped(const gs_case *c, const shares *s) {
    for (int i = 0; i < s->unknowns; i++)
        if (!(s->of[i] > 0 && s->of[i] < 1.001)) return false;
    return gs_digests_number(c->a, "clip") > 0;
}

static bool name_shares(const gs_case *c, const shares *s) {
    char ranks[300];
    const int with = count_of(s, 1), without = count_of(s, 0), all = s->unknowns;
    const bool own = is(s->of[c->rank], 1);
    if (all > 1 && own && without == all - 1) return name_own(c);
    if (own && with > 1 && without > 0 && with + without == all && c->ranks == c->a->workers &&
        !all_have_the_same(c))
        return gs_name(c, "summed within a group", "rank %d has the sum of ranks %s only", c->rank,
                       ranks_with(s, 1, ranks, sizeof ranks));
    if (name_ranks(c, s, 0, "rank missing from the sum") || name_ranks(c, s, 2, "rank counted twice"))
        return true;
    if (are_clipped(c, s))
        return gs_name(
            c, "clipped before the sum",
            "each rank's gradient has a factor below 1, as if clipped by its own norm: %.3g for rank 0",
            s->of[0]);
    return count_of(s, s->of[0]) == all && !is(s->of[0], 1) &&
           gs_name(c, "sum scaled", "it is %.4g times what it should be", s->of[0]);
}

/* ---- passes ---- */

static bool is_last_pass(const shares *s, int passes) {
    for (int i = 0; i < s->unknowns; i++)
        if (!is(s->of[i], i % passes == passes - 1 ? 1 : 0)) return false;
    return true;
}

static bool name_passes(const gs_case *c, const shares *s, int passes) {
    const int lost = count_of(s, 0);
    int first = 0;
    if (lost < 1 || lost + count_of(s, 1) != s->unknowns) return false;
    while (!is(s->of[first], 0)) first++;
    return gs_name(c, "micro-batch missing",
                   "micro-batch %d of rank %d%s is not in the sum: it came too late, or was lost",
                   first % passes, first / passes, lost > 1 ? ", among others," : "");
}

/* Another rank holds the right sum. A stage holds only the sums of its own layers. */
static bool another_is_right(const gs_case *c) {
    for (int r = 0; r < c->a->workers; r++)
        if (!c->d->rank[r] && gs_digest_rank_holds(c->a, r, c->step, GS_DIGEST_sum, c->number)) return true;
    return false;
}

bool gs_cause_of_sum(const gs_case *c) {
    const int passes = (int)c->passes;
    const shares s = find_shares(c, 1), of_passes = passes > 1 ? find_shares(c, passes) : (shares){0};
    if (s.found && count_of(&s, s.of[0]) == s.unknowns && name_factor(c, s.of[0])) return true;
    if (of_passes.found && is_last_pass(&of_passes, passes))
        return gs_name(c, "micro-batch overwritten",
                       "the sum holds only the last micro-batch: each overwrites those before it");
    if ((s.found && name_shares(c, &s)) || (of_passes.found && name_passes(c, &of_passes, passes)))
        return true;
    if (c->d->relative < 2e-2)
        return gs_name(c, "sum rounded",
                       "the difference is small (%.1g): the sum has fewer bits, as in f16 or bf16",
                       c->d->relative);
    if (c->ranks > 0 && another_is_right(c))
        return gs_name(c, "sum changed on a rank",
                       "the other ranks have the right sum: it was changed on the way, or afterwards");
    return gs_name(c, "another sum", "what the ranks add is right, but the sum is not");
}
