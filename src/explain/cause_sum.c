/* The sum of gradients, where what the ranks have to add is right: which of them are in it, and how often? Least
 * squares says so: summed dw = c_0 dw_0 + c_1 dw_1 + ..., over the tensors that differ. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/text.h"
#include "explain/causes.h"
#include "explain/fit.h"
#include "explain/sums.h"

/* How often each rank's gradient is in the sum that `rank` has. */
typedef struct shares {
    int rank, unknowns;
    double of[GS_FIT_MOST];
    int tensors, all; /* that differ; that there are */
    char names[300];  /* of those that differ */
} shares;

static bool tensor_differs(const gs_case *c, int rank, int p, gs_numbers *a) {
    gs_numbers b;
    return !c->a->param[p].state && gs_holds(c->a, rank, c->d->step, GS_DIGEST_sum, p) &&
           gs_whole(c->a, rank, c->d->step, GS_DIGEST_sum, p, a) &&
           gs_whole_of_run(c->b, c->d->step, GS_DIGEST_sum, p, &b) &&
           gs_apart(a, &b) > 1e-4 * sqrt(b.squares);
}

/* What rank q, or its pass, has to add. */
static bool to_add(const gs_case *c, int unknown, int passes, int p, gs_numbers *out) {
    return gs_total(c->a, unknown / passes, c->d->step, GS_DIGEST_dw, p,
                    passes > 1 ? unknown % passes : GS_ALL_PARTS, out);
}

static void add_tensor(const gs_case *c, gs_fit *fit, int passes, int p, const gs_numbers *sum) {
    gs_numbers x[GS_FIT_MOST];
    const gs_numbers *of[GS_FIT_MOST] = {NULL};
    for (int i = 0; i < fit->count; i++)
        if (to_add(c, i, passes, p, &x[i])) of[i] = &x[i];
    gs_fit_add(fit, sum, of);
}

/* passes 1: by rank; else by rank and pass. */
static bool find_shares(const gs_case *c, int passes, shares *s) {
    gs_fit fit = {.count = c->a->workers * passes};
    double rest;
    *s = (shares){.unknowns = fit.count};
    gs_ranks_of(c, &s->rank);
    if (fit.count > GS_FIT_MOST) return false;
    for (int p = 0; p < c->a->params; p++) {
        gs_numbers a;
        s->all += !c->a->param[p].state;
        if (!tensor_differs(c, s->rank, p, &a)) continue;
        if (s->tensors++ < 4)
            gs_append(s->names, sizeof s->names, "%s%s", s->names[0] ? ", " : "", c->a->param[p].name);
        add_tensor(c, &fit, passes, p, &a);
    }
    return gs_fit_solve(&fit, s->of, &rest) && rest < 1e-2;
}

static bool is(double share, double wanted) {
    return fabs(share - wanted) < 0.01 * fmax(1, fabs(wanted));
}

static int count_of(const shares *s, double wanted) {
    int count = 0;
    for (int i = 0; i < s->unknowns; i++) count += is(s->of[i], wanted);
    return count;
}

static int first_of(const shares *s, double wanted) {
    for (int i = 0; i < s->unknowns; i++)
        if (is(s->of[i], wanted)) return i;
    return -1;
}

/* "gradient of rank 1 is", "gradients of ranks 1, 3 are", in s->names, which is not needed any more. */
static const char *gradients_with(shares *s, double wanted) {
    const char *plural = count_of(s, wanted) > 1 ? "s" : "", *comma = "";
    snprintf(s->names, sizeof s->names, "gradient%s of rank%s ", plural, plural);
    for (int i = 0; i < s->unknowns; i++) {
        if (!is(s->of[i], wanted)) continue;
        gs_append(s->names, sizeof s->names, "%s%d", comma, i);
        comma = ", ";
    }
    gs_append(s->names, sizeof s->names, *plural ? " are" : " is");
    return s->names;
}

/* All ranks count alike, `times`. */
static bool all_alike(const gs_case *c, double *times) {
    shares s;
    if (!find_shares(c, 1, &s) || count_of(&s, s.of[0]) != s.unknowns) return false;
    *times = s.of[0];
    return true;
}

static bool summed_twice(const gs_case *c) {
    double times;
    return c->a->workers > 1 && all_alike(c, &times) && is(times, gs_parts_of_batch(c->a)) &&
           gs_say(c,
                  "the sum is %.0f times what it should be, as many as there are ranks: it was summed over "
                  "them twice",
                  times);
}

static bool averaged(const gs_case *c) {
    double times;
    return c->a->workers > 1 && all_alike(c, &times) && is(times * gs_parts_of_batch(c->a), 1) &&
           gs_say(c,
                  "the sum is divided by the %.0f ranks, and then by all samples again: a mean was taken for "
                  "a sum",
                  gs_parts_of_batch(c->a));
}

static bool times_all(const gs_case *c) {
    double times;
    return all_alike(c, &times) && !is(times, 1) &&
           gs_say(c, "the sum is %.4g times what it should be", times);
}

/* This rank's own gradient, of all tensors that differ. */
static bool own_alone(const gs_case *c, shares *s) {
    return find_shares(c, 1, s) && s->unknowns > 1 && is(s->of[s->rank], 1) &&
           count_of(s, 0) == s->unknowns - 1;
}

static bool not_summed(const gs_case *c) {
    shares s;
    return own_alone(c, &s) && s.tensors == s.all &&
           gs_say(c, "rank %d has its own gradient in place of the sum: gradients are not summed at all",
                  s.rank);
}

static bool bucket_missed(const gs_case *c) {
    shares s;
    return own_alone(c, &s) &&
           gs_say(c, "each rank has its own gradient of %s%s in place of the sum: a bucket was missed",
                  s.names, s.tensors > 4 ? ", ..." : "");
}

static bool within_a_group(const gs_case *c) {
    shares s;
    char ranks[100] = "";
    if (!find_shares(c, 1, &s) || !is(s.of[s.rank], 1)) return false;
    const int in = count_of(&s, 1), out = count_of(&s, 0);
    if (in < 2 || out < 1 || in + out != s.unknowns || gs_ranks_of(c, NULL) != c->a->workers) return false;
    /* where all ranks have the same sum, a rank is missing from it: not this */
    gs_numbers mine, other;
    bool same = true;
    for (int r = 0; r < c->a->workers; r++)
        same &= gs_whole(c->a, s.rank, c->d->step, GS_DIGEST_sum, c->d->number, &mine) &&
                gs_whole(c->a, r, c->d->step, GS_DIGEST_sum, c->d->number, &other) && gs_alike(&mine, &other);
    if (same) return false;
    for (int i = 0; i < s.unknowns; i++)
        if (is(s.of[i], 1)) gs_append(ranks, sizeof ranks, "%s%d", ranks[0] ? ", " : "", i);
    return gs_say(c, "rank %d has the sum of ranks %s alone: it was summed within a group, and not over all",
                  s.rank, ranks);
}

static bool rank_missing(const gs_case *c) {
    shares s;
    if (!find_shares(c, 1, &s) || count_of(&s, 0) < 1 || count_of(&s, 0) + count_of(&s, 1) != s.unknowns)
        return false;
    return gs_say(c, "the %s not in the sum", gradients_with(&s, 0));
}

static bool rank_twice(const gs_case *c) {
    shares s;
    if (!find_shares(c, 1, &s) || count_of(&s, 2) < 1 || count_of(&s, 2) + count_of(&s, 1) != s.unknowns)
        return false;
    return gs_say(c, "the %s in the sum twice", gradients_with(&s, 2));
}

static bool clipped_before(const gs_case *c) {
    shares s;
    if (!find_shares(c, 1, &s) || !(gs_digests_number(c->a, "clip") > 0)) return false;
    for (int i = 0; i < s.unknowns; i++)
        if (!(s.of[i] > 0 && s.of[i] < 1.001)) return false;
    return gs_say(c,
                  "the ranks' gradients are in the sum with factors of their own, below 1 (%.3g of rank 0): "
                  "each was clipped by its own norm before the sum",
                  s.of[0]);
}

/* ---- passes ---- */

static bool find_passes(const gs_case *c, shares *s, int *passes) {
    *passes = (int)gs_passes_of(c->a);
    return *passes > 1 && find_shares(c, *passes, s);
}

static bool overwritten(const gs_case *c) {
    shares s;
    int passes;
    if (!find_passes(c, &s, &passes)) return false;
    for (int i = 0; i < s.unknowns; i++)
        if (!is(s.of[i], i % passes == passes - 1 ? 1 : 0)) return false;
    return gs_say(
        c, "the sum has the last micro-batch alone: each has overwritten the gradients of those before it");
}

static bool pass_missing(const gs_case *c) {
    shares s;
    int passes;
    if (!find_passes(c, &s, &passes) || count_of(&s, 0) < 1 ||
        count_of(&s, 0) + count_of(&s, 1) != s.unknowns)
        return false;
    const int lost = count_of(&s, 0), first = first_of(&s, 0);
    char more[32] = "";
    if (lost > 1) snprintf(more, sizeof more, ", with %d more,", lost - 1);
    return gs_say(
        c,
        "micro-batch %d of rank %d%s is not in the sum: the gradients were sent before it was added, "
        "or it was lost",
        first % passes, first / passes, more);
}

/* ---- otherwise ---- */

static bool rounded(const gs_case *c) {
    return c->d->relative < 2e-2 &&
           gs_say(c, "the difference is small (%.1g): the sum was made with fewer bits, as f16 or bf16 have",
                  c->d->relative);
}

/* Is there a rank that has the sum, and has it right? (Stages have those of their own layers.) */
static bool another_is_right(const gs_case *c) {
    for (int r = 0; r < c->a->workers; r++)
        if (!c->d->rank[r] && gs_holds(c->a, r, c->d->step, GS_DIGEST_sum, c->d->number)) return true;
    return false;
}

static bool on_one_rank(const gs_case *c) {
    return gs_ranks_of(c, NULL) > 0 && another_is_right(c) &&
           gs_say(c,
                  "the sum on %s is not that of the other ranks, which is right: it was changed on the way, "
                  "or afterwards",
                  gs_ranks_text(c));
}

static bool another_sum(const gs_case *c) {
    return gs_say(c, "what the ranks add is right, but the sum on %s is not", gs_ranks_text(c));
}

const gs_cause gs_causes_of_sum[] = {{"summed twice", summed_twice},
                                     {"mean instead of sum", averaged},
                                     {"micro-batch overwritten", overwritten},
                                     {"not summed", not_summed},
                                     {"bucket missed", bucket_missed},
                                     {"summed within a group", within_a_group},
                                     {"rank missing from the sum", rank_missing},
                                     {"rank counted twice", rank_twice},
                                     {"clipped before the sum", clipped_before},
                                     {"sum scaled", times_all},
                                     {"micro-batch missing", pass_missing},
                                     {"sum rounded", rounded},
                                     {"sum changed on a rank", on_one_rank},
                                     {"another sum", another_sum},
                                     {0}};
