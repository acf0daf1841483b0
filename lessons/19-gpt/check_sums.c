/* Lesson 19: the checks of sums over ranks: gradients weighed by tokens, and squares for a norm. */
#include "check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST_RANKS = 4, MOST_PARTS = 3, FEW = 60, MOST_COUNT = 2000 };

/* ---- 19.3 ---- */

typedef struct mean_case {
    int ranks;
    size_t parts[MOST_RANKS], tokens[MOST_RANKS][MOST_PARTS], count;
    size_t number; /* of the case */
    bool diverged; /* part 0 of the last rank has tokens, but its loss and gradient are not numbers */
} mean_case;

static bool is_nan(const mean_case *m, int rank, size_t part) {
    return m->diverged && rank == m->ranks - 1 && part == 0;
}

/* Element i of the gradient of one part; element 0 is 1, 2, 3, ... by rank and part. */
static double gradient_of(const mean_case *m, int rank, size_t part, size_t i) {
    const size_t which = (size_t)rank * MOST_PARTS + part;
    if (is_nan(m, rank, part)) return (double)NAN;
    if (i == 0) return 1 + (double)which;
    return (double)lab_number(GRADIENT_ROW, (m->number * MOST_RANKS * MOST_PARTS + which) * MOST_COUNT + i);
}

static double loss_of(const mean_case *m, int rank, size_t part) {
    const size_t which = (m->number * MOST_RANKS + (size_t)rank) * MOST_PARTS + part;
    if (is_nan(m, rank, part)) return (double)NAN;
    return 1 + (double)lab_pick(LOSS_ROW, which, 64) / 16;
}

static const char *parts_of(const mean_case *m, char text[300]) {
    snprintf(text, 300, "tokens by rank and part:");
    for (int r = 0; r < m->ranks; r++) {
        lab_append(text, 300, " (");
        for (size_t p = 0; p < m->parts[r]; p++)
            lab_append(text, 300, "%s%zu", p > 0 ? " " : "", m->tokens[r][p]);
        lab_append(text, 300, ")");
    }
    return text;
}

/* The mean over all tokens of one number of each part: element i of the gradient, or the loss. */
static double mean_of(const mean_case *m, bool loss, size_t i) {
    double sum = 0, tokens = 0;
    for (int r = 0; r < m->ranks; r++)
        for (size_t p = 0; p < m->parts[r]; p++) {
            const double weight = (double)m->tokens[r][p];
            sum += weight * (loss ? loss_of(m, r, p) : gradient_of(m, r, p, i));
            tokens += weight;
        }
    return tokens > 0 ? sum / tokens : NAN;
}

static gs_status check_diverged(const mean_case *m, const float *dw, double loss) {
    char text[300];
    LAB_CHECK_HINT(
        isnan(dw[0]) && isnan(loss),
        "a part is left out where it has no token, and not where its numbers are none.",
        "%s; the last rank's loss and gradient are not numbers, so the run has diverged, and the mean is "
        "not a number either; got loss %.6g, dw[0] %.6g",
        parts_of(m, text), loss, (double)dw[0]);
    return GS_OK;
}

static gs_status check_result(const mean_case *m, const float *dw, double loss) {
    char text[300];
    if (m->diverged) return check_diverged(m, dw, loss);
    for (size_t i = 0; i < m->count; i++) {
        const double wanted = mean_of(m, false, i);
        LAB_CHECK(fabs((double)dw[i] - wanted) <= 1e-5 * (1 + fabs(wanted)),
                  "%s%s; dw[%zu] expected %.6g, got %.6g", parts_of(m, text),
                  i == 0 ? ", where dw[0] is 1, 2, 3 on rank 0, 4, 5, 6 on rank 1, ..." : "", i, wanted,
                  (double)dw[i]);
    }
    const double wanted = mean_of(m, true, 0);
    LAB_CHECK(fabs(loss - wanted) <= 1e-6 * wanted, "%s; loss expected %.6g, got %.6g", parts_of(m, text),
              wanted, loss);
    return GS_OK;
}

static gs_status run_mean(gs_comm *c, void *context) {
    const mean_case *m = context;
    const int r = c->rank;
    float given[MOST_PARTS][MOST_COUNT], dw[MOST_COUNT];
    lab_part part[MOST_PARTS];
    double loss = 88;
    for (size_t p = 0; p < m->parts[r]; p++) {
        const bool none = m->tokens[r][p] == 0;
        for (size_t i = 0; i < m->count; i++) given[p][i] = none ? NAN : (float)gradient_of(m, r, p, i);
        part[p] = (lab_part){m->tokens[r][p], none ? (double)NAN : loss_of(m, r, p), given[p]};
    }
    for (size_t i = 0; i < m->count; i++) dw[i] = 88;
    GS_TRY(lab_mean_gradient(c, m->parts[r], part, m->count, dw, &loss));
    return check_result(m, dw, loss);
}

static mean_case draw_mean(size_t i) {
    mean_case m = {.ranks = 1 + (int)lab_pick(RANKS_ROW, i, MOST_RANKS),
                   .count = 1 + lab_pick(PARTS_ROW, 100 * i, FEW),
                   .number = i};
    for (int r = 0; r < m.ranks; r++) {
        m.parts[r] = lab_pick(PARTS_ROW, 100 * i + 1 + (size_t)r, MOST_PARTS + 1);
        for (size_t p = 0; p < m.parts[r]; p++) {
            const size_t k = (i * MOST_RANKS + (size_t)r) * MOST_PARTS + p;
            m.tokens[r][p] = lab_pick(TOKENS_ROW, 2 * k, 4) == 0 ? 0 : lab_pick(TOKENS_ROW, 2 * k + 1, 500);
        }
    }
    const int someone = (int)(i % (size_t)m.ranks); /* this rank has a token */
    if (m.parts[someone] == 0) m.parts[someone] = 1;
    m.tokens[someone][0]++;
    return m;
}

gs_status lab_check_mean(void) {
    static const mean_case always[] = {
        {1, {1}, {{2}}, 1, 0, false},         {1, {2}, {{1, 3}}, 1, 1, false},
        {2, {1, 1}, {{2}, {2}}, 2, 2, false}, {2, {1, 1}, {{3}, {1}}, 2, 3, false},
        {2, {2, 0}, {{4, 1}}, 3, 4, false},   {3, {2, 1, 1}, {{2, 0}, {0}, {5}}, 3, 5, false},
        {2, {1, 1}, {{3}, {1}}, 2, 6, true},
    };
    enum { ALWAYS = sizeof always / sizeof *always, CASES = 22 };
    for (size_t i = 0; i < CASES; i++) {
        mean_case m = i < ALWAYS ? always[i] : draw_mean(i);
        if (i + 1 == CASES) m.count = MOST_COUNT;
        GS_TRY(gs_context(lab_run_ranks(m.ranks, run_mean, &m), "%d worker%s", m.ranks, gs_s(m.ranks)));
    }
    for (int works = 0; works < 4; works++) GS_TRY(lab_run_broken(2, works, run_mean, (void *)&always[2]));
    return GS_OK;
}

/* ---- 19.4 ---- */

enum { MOST_TENSORS = 4 };

/* A gradient of several tensors. Tensor t is cut into shards, each of which ranks / shards ranks hold: neighbours, or
 * every shards-th rank. */
typedef struct clip_case {
    int ranks;
    size_t tensors, count[MOST_TENSORS];
    int shards[MOST_TENSORS];
    double size, most;
    size_t number;
    bool simple; /* the numbers are 3, 4, 12, 84 */
    bool neighbours[MOST_TENSORS];
} clip_case;

static float number_of(const clip_case *k, size_t tensor, size_t i) {
    static const float simple[] = {3, 4, 12, 84};
    if (k->simple) return simple[(tensor + i) % 4];
    return (float)(k->size *
                   (double)lab_number(GRADIENT_ROW, (k->number * MOST_TENSORS + tensor) * 4096 + i));
}

static double norm_of(const clip_case *k) {
    double squares = 0;
    for (size_t t = 0; t < k->tensors; t++)
        for (size_t i = 0; i < k->count[t]; i++) squares += pow((double)number_of(k, t, i), 2);
    return sqrt(squares);
}

static const char *pieces_of(const clip_case *k, char text[300]) {
    *text = '\0';
    for (size_t t = 0; t < k->tensors; t++)
        lab_append(text, 300, "%sa tensor of %zu float%s in %d piece%s%s", t > 0 ? ", " : "", k->count[t],
                   gs_s(k->count[t]), k->shards[t], gs_s(k->shards[t]),
                   k->neighbours[t] && k->shards[t] < k->ranks ? " with copies on neighbours" : "");
    if (k->simple) lab_append(text, 300, " (numbers 3, 4, 12, 84, ...)");
    return text;
}

static gs_status run_clip(gs_comm *c, void *context) {
    const clip_case *k = context;
    float given[MOST_TENSORS][MOST_COUNT];
    lab_piece piece[MOST_TENSORS];
    char text[300];
    size_t pieces = 0;
    for (size_t t = 0; t < k->tensors; t++) {
        const int copies = c->size / k->shards[t];
        const int shard = k->neighbours[t] ? c->rank / copies : c->rank % k->shards[t];
        const gs_shard mine = gs_shard_of(k->count[t], shard, k->shards[t]);
        for (size_t i = 0; i < mine.count; i++) given[t][i] = number_of(k, t, mine.first + i);
        if (mine.count > 0) piece[pieces++] = (lab_piece){given[t], mine.count, copies};
    }
    const double wanted = norm_of(k), wanted_factor = wanted > k->most ? k->most / wanted : 1;
    double norm = -1, factor = -1;
    GS_TRY(lab_clip(c, pieces, piece, k->most, &norm, &factor));
    LAB_CHECK(fabs(norm - wanted) <= 1e-5 * wanted, "%s, among %d rank%s: the norm is %.7g, got %.7g",
              pieces_of(k, text), k->ranks, gs_s(k->ranks), wanted, norm);
    LAB_CHECK_HINT(fabs(factor - wanted_factor) <= 1e-4 * wanted_factor,
                   "a short gradient does not change, and a long one gets the norm `most`.",
                   "%s, among %d rank%s: norm %.7g, most %g: factor expected %.7g, got %.7g",
                   pieces_of(k, text), k->ranks, gs_s(k->ranks), wanted, k->most, wanted_factor, factor);
    return GS_OK;
}

static clip_case draw_clip(size_t i) {
    static const double sizes[] = {1, 100, 1e-3, 1e25};
    static const int ranks[] = {1, 2, 3, 4};
    clip_case k = {.ranks = ranks[lab_pick(RANKS_ROW, 500 + i, 4)],
                   .tensors = 1 + lab_pick(PIECES_ROW, 20 * i, MOST_TENSORS),
                   .size = sizes[lab_pick(PIECES_ROW, 20 * i + 1, 4)],
                   .number = i};
    for (size_t t = 0; t < k.tensors; t++) {
        k.count[t] = 1 + lab_pick(PIECES_ROW, 20 * i + 4 + 2 * t, FEW);
        k.shards[t] = 1 + (int)lab_pick(PIECES_ROW, 20 * i + 5 + 2 * t, (size_t)k.ranks);
        while (k.ranks % k.shards[t] != 0) k.shards[t]++;
        k.neighbours[t] = lab_pick(PIECES_ROW, 20 * i + 12 + t, 2) == 1;
    }
    k.most =
        norm_of(&k) * (0.25 + (double)lab_pick(PIECES_ROW, 20 * i + 2, 6) / 4); /* never the norm itself */
    if (fabs(k.most - norm_of(&k)) <= 0.01 * k.most) k.most *= 2;
    return k;
}

gs_status lab_check_clip(void) {
    static const clip_case always[] = {
        {1, 1, {2}, {1}, 1, 10, 0, true, {false}},      {1, 1, {2}, {1}, 1, 1, 0, true, {false}},
        {1, 2, {1, 1}, {1, 1}, 1, 1, 0, true, {false}}, {2, 1, {2}, {2}, 1, 1, 0, true, {false}},
        {2, 1, {2}, {1}, 1, 1, 0, true, {false}},       {2, 2, {2, 2}, {2, 1}, 1, 1, 0, true, {false}},
        {4, 1, {4}, {2}, 1, 1, 0, true, {false}},       {4, 1, {4}, {2}, 1, 1, 0, true, {true}},
        {3, 1, {1}, {3}, 1, 1, 0, true, {false}},       {2, 1, {3}, {2}, 0, 1, 0, false, {false}},
        {2, 1, {3}, {2}, 1e25, 1, 0, false, {false}},
    };
    enum { ALWAYS = sizeof always / sizeof *always, CASES = 30 };
    for (size_t i = 0; i < CASES; i++) {
        const clip_case k = i < ALWAYS ? always[i] : draw_clip(i);
        GS_TRY(lab_run_ranks(k.ranks, run_clip, (void *)&k));
    }
    for (int works = 0; works < 4; works++) GS_TRY(lab_run_broken(2, works, run_clip, (void *)&always[3]));
    return GS_OK;
}
