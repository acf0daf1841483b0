/* Lesson 18: the list of its tasks, and the checks of cuts and of the cost. */
#include "check.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- 18.1 ---- */

static bool is_of(size_t all, size_t i, int rank, int ranks) {
    const lab_range r = lab_part_of(all, rank, ranks);
    return i >= r.first && i < r.first + r.count;
}

enum { MOST_ELEMENTS = 800 };

/* Checks that the cut names the rank's elements, in order, and no others. */
static gs_status check_cut(const char *what, lab_cut cut, size_t rows, size_t columns, size_t blocks,
                           bool by_rows, int rank, int ranks) {
    size_t wanted = 0;
    char found[60] = "no more";
    for (size_t i = 0; i < rows * columns; i++) {
        const size_t row = i / columns, column = i % columns, all = by_rows ? rows / blocks : columns;
        if (!is_of(all, by_rows ? row % all : column, rank, ranks)) continue;
        const bool more = wanted < cut.count * cut.length;
        const size_t at = more ? cut.first + wanted / cut.length * cut.step + wanted % cut.length : 0;
        if (more) snprintf(found, sizeof found, "(%zu, %zu)", at / columns, at % columns);
        LAB_CHECK(
            more && at == i,
            "%s: matrix (%zu, %zu), %zu block%s, rank %d of %d: {first %zu, length %zu, step %zu, count "
            "%zu}: element %zu of its own is (%zu, %zu), got %s",
            what, rows, columns, blocks, gs_s(blocks), rank, ranks, cut.first, cut.length, cut.step,
            cut.count, wanted, row, column, more ? found : "no more");
        wanted++;
    }
    LAB_CHECK(cut.count * cut.length == wanted,
              "%s: (%zu, %zu), rank %d of %d: %zu elements are its own, got %zu runs of %zu", what, rows,
              columns, rank, ranks, wanted, cut.count, cut.length);
    return GS_OK;
}

static gs_status check_cuts_of(size_t rows, size_t columns, size_t blocks, int ranks) {
    for (int r = 0; r < ranks; r++) {
        GS_TRY(check_cut("by rows", lab_rows_of(rows, columns, blocks, r, ranks), rows, columns, blocks, true,
                         r, ranks));
        GS_TRY(check_cut("by columns", lab_columns_of(rows, columns, r, ranks), rows, columns, 1, false, r,
                         ranks));
    }
    return GS_OK;
}

static gs_status check_cuts(void) {
    static const size_t always[][4] = {/* rows, columns, blocks, ranks */
                                       {2, 2, 1, 1}, {2, 2, 1, 2},  {4, 2, 1, 2},   {6, 2, 3, 2},
                                       {5, 4, 1, 3}, {12, 5, 3, 4}, {90, 11, 1, 10}};
    for (size_t i = 0; i < sizeof always / sizeof *always; i++)
        GS_TRY(check_cuts_of(always[i][0], always[i][1], always[i][2], (int)always[i][3]));
    for (size_t i = 0; i < 24; i++) {
        const size_t ranks = 1 + lab_pick(RANKS_ROW, i, MOST_RANKS),
                     blocks = 1 + lab_pick(SIZES_ROW, 3 * i, 3);
        const size_t each = ranks + lab_pick(SIZES_ROW, 3 * i + 1, 9);
        GS_TRY(check_cuts_of(blocks * each, ranks + lab_pick(SIZES_ROW, 3 * i + 2, 9), blocks, (int)ranks));
    }
    return GS_OK;
}

/* ---- 18.5 ---- */

static gs_status check_cost(size_t blocks, size_t tokens, size_t width, int ranks, bool tied) {
    const lab_sent got = lab_traffic(blocks, tokens, width, ranks, tied);
    size_t sums = 2; /* the loss */
    double floats = (double)tokens * (ranks + 3);
    for (size_t i = 0; i < 4 * blocks + (tied ? 2 : 1); i++) {
        floats += (double)tokens * (double)width;
        sums++;
    }
    const double bytes = floats * 4 * 2 * (1 - 1.0 / ranks);
    LAB_CHECK(got.sums == sums, "%zu block%s, %s: %zu all-reduces in a step, got %zu", blocks, gs_s(blocks),
              tied ? "tied" : "not tied", sums, got.sums);
    LAB_CHECK(fabs(got.bytes - bytes) <= 1e-6 * bytes + 1e-6,
              "%zu block%s, %zu token%s of %zu floats, %d rank%s, %s: a rank sends %.0f bytes, got %.0f",
              blocks, gs_s(blocks), tokens, gs_s(tokens), width, ranks, gs_s(ranks),
              tied ? "tied" : "not tied", bytes, got.bytes);
    return GS_OK;
}

static gs_status check_costs(void) {
    GS_TRY(check_cost(1, 1, 8, 2, false));
    GS_TRY(check_cost(1, 1, 8, 2, true));
    GS_TRY(check_cost(4, 128, 128, 2, true)); /* `train --model gpt --batch 2 --tensor 2` says the same */
    GS_TRY(check_cost(96, 1 << 20, 12288, 8, true)); /* more than fits an int */
    for (size_t i = 0; i < 20; i++)
        GS_TRY(check_cost(1 + lab_pick(COST_ROW, 5 * i, 8), 1 + lab_pick(COST_ROW, 5 * i + 1, 900),
                          1 + lab_pick(COST_ROW, 5 * i + 2, 900), 1 + (int)lab_pick(COST_ROW, 5 * i + 3, 9),
                          lab_pick(COST_ROW, 5 * i + 4, 2) == 1));
    return GS_OK;
}

const char *const lab_may_call[] = {"gs_call_run", "gs_fail", "gs_context", NULL};

const lab_task lab_tasks[] = {
    {"18.1", "who owns which part of a matrix: rows, columns", 2, check_cuts,
     "draw a matrix of 6 rows, two each of q, k and v, and colour the rows of rank 1 of 2."},
    {"18.2", "forward of a pair", 2, lab_check_forward,
     "the first layer's outputs are whole sums; the second layer's are partial sums until the ranks add "
     "them."},
    {"18.3", "backward of a pair", 2, lab_check_backward,
     "forward of the first layer copies x to all ranks; the gradient of a copy is a sum. The second layer's "
     "dy is whole on all ranks, and so is the db computed from it."},
    {"18.4", "the loss of a divided vocabulary", 3, lab_check_words,
     "the largest and the sum are over all words; one rank holds the label's word."},
    {"18.5", "what it costs: sums and bytes of a step", 1, check_costs,
     "a block has two pairs; a pair takes one sum in forward and one in backward."},
    {0},
};
