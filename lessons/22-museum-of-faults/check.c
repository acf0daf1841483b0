/* Checks 22.1 with single rows, 22.2 with pairs, 22.5 with planted draws, and 22.6 with the norm of the whole array. */
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "lab.h"
#include "tasks.h"

/* ---- 22.1 ---- */

static const char *four(const double *x) {
    float f[LAB_ALONG];
    for (int k = 0; k < LAB_ALONG; k++) f[k] = (float)x[k];
    return lab_floats(f, LAB_ALONG);
}

/* Array a equals b, except that number k is `apart` sizes away. */
static gs_status check_one(const double *b, double size, double tolerance, int k, double apart, bool wanted) {
    lab_row row = {.step = 1, .quantity = LAB_SUM, .size = size};
    for (int i = 0; i < LAB_ALONG; i++) row.a[i] = row.b[i] = b[i];
    row.a[k] += apart * size;
    const bool got = lab_differs(&row, tolerance);
    LAB_CHECK(got == wanted, "a is %s, b is %s, size %g, tolerance %g: expected %s, got %s", four(row.a),
              four(row.b), size, tolerance, wanted ? "that they differ" : "that they are the same",
              got ? "true" : "false");
    return GS_OK;
}

static gs_status check_special(double a, double b, double size, bool wanted) {
    for (int k = 0; k < LAB_ALONG; k++) {
        lab_row row = {.step = 1, .quantity = LAB_NORM, .size = size};
        row.a[k] = a;
        row.b[k] = b;
        const bool got = lab_differs(&row, 1e-4);
        LAB_CHECK(got == wanted,
                  "number %d is %g in a and %g in b, size %g, tolerance 1e-4: expected %s, got %s", k, a, b,
                  size, wanted ? "true" : "false", got ? "true" : "false");
    }
    return GS_OK;
}

/* All four numbers differ, each by less than the tolerance. */
static gs_status check_all_apart(const double *b, double size, double tolerance) {
    lab_row row = {.step = 1, .quantity = LAB_SUM, .size = size};
    for (int k = 0; k < LAB_ALONG; k++) {
        row.b[k] = b[k];
        row.a[k] = b[k] + (k % 2 ? 0.8 : -0.8) * tolerance * size;
    }
    LAB_CHECK(
        !lab_differs(&row, tolerance),
        "each of the four numbers of a is 0.8 * tolerance * size from that of b (size %g, tolerance %g): "
        "expected that they are the same, got true",
        size, tolerance);
    return GS_OK;
}

gs_status check_differs(void) {
    static const double small[LAB_ALONG] = {1, -2, 0.5, 3};
    GS_TRY(check_one(small, 4, 1e-4, 0, 0, false));
    GS_TRY(check_all_apart(small, 4, 1e-2));
    for (int k = 0; k < LAB_ALONG; k++) {
        GS_TRY(check_one(small, 4, 1e-4, k, 1e-3, true));
        GS_TRY(check_one(small, 4, 1e-4, k, -1e-3, true));
        GS_TRY(check_one(small, 4, 1e-4, k, 1e-5, false));
        GS_TRY(check_one(small, 4, 1e-2, k, 1e-3, false));
    }
    GS_TRY(check_special(0, 0, 0, false));
    GS_TRY(check_special(1e-9, 0, 0, true));
    GS_TRY(check_special((double)NAN, 1, 1, true));
    GS_TRY(check_special(1, (double)NAN, 1, true));
    GS_TRY(check_special((double)NAN, (double)NAN, 1, true));
    GS_TRY(check_special(1, 1, (double)NAN, true));
    for (size_t i = 0; i < 100; i++) { /* arrays of all sizes */
        double b[LAB_ALONG];
        const double size = pow(10, 8 * (double)lab_number(SIZES_ROW, i)),
                     tolerance = pow(10, -3 + (double)lab_number(SIZES_ROW, 200 + i)),
                     most = 0.02 * tolerance; /* far from the limit, for any rounding */
        for (int k = 0; k < LAB_ALONG; k++) b[k] = size * (double)lab_number(ROWS_ROW, 4 * i + (size_t)k);
        const int k = (int)lab_pick(PLACES_ROW, i, LAB_ALONG);
        const double sign = lab_number(PLACES_ROW, 200 + i) < 0 ? -1 : 1;
        const bool wanted = lab_pick(PLACES_ROW, 400 + i, 2) == 1;
        GS_TRY(check_one(b, size, tolerance, k, sign * (wanted ? tolerance * 1.5 : most), wanted));
    }
    return GS_OK;
}

/* ---- 22.2 ---- */

static const char *const names[LAB_QUANTITIES] = {"rate",   "samples",  "weight", "input", "y",
                                                  "dy",     "dw",       "dx",     "sum",   "norm",
                                                  "factor", "velocity", "updated"};

static const char *text_of(const lab_row *x) {
    static char text[2][80];
    static int next;
    char *t = text[next++ % 2];
    snprintf(t, sizeof *text, "step %d, %s of layer %d, rank %d", x->step, names[x->quantity], x->layer,
             x->rank);
    return t;
}

/* A number that grows with time: forward goes up through the layers, backward goes down. */
static long time_of(const lab_row *x) {
    enum { LAYERS = 100, RANKS = 100 };
    const bool back = x->quantity == LAB_DW || x->quantity == LAB_DX;
    const long layer = back ? LAYERS - 1 - x->layer : x->layer;
    const long stage = back ? LAB_DW : x->quantity, within = back ? x->quantity - LAB_DW : 0;
    return (((x->step * LAB_QUANTITIES + stage) * LAYERS + layer) * 2 + within) * RANKS + x->rank;
}

static gs_status check_pair(lab_row x, lab_row y) {
    const bool wanted = time_of(&x) < time_of(&y), got = lab_before(&x, &y);
    LAB_CHECK(got == wanted, "x: %s; y: %s: was x computed before y? expected %s, got %s", text_of(&x),
              text_of(&y), wanted ? "true" : "false", got ? "true" : "false");
    return GS_OK;
}

static lab_row row_of(int step, int quantity, int layer, int rank) {
    return (lab_row){.step = step, .quantity = quantity, .layer = layer, .rank = rank};
}

gs_status check_before(void) {
    GS_TRY(check_pair(row_of(1, LAB_Y, 0, 0), row_of(2, LAB_Y, 0, 0)));
    GS_TRY(check_pair(row_of(2, LAB_RATE, 0, 0), row_of(1, LAB_UPDATED, 0, 0)));
    GS_TRY(check_pair(row_of(1, LAB_SUM, 0, 0), row_of(1, LAB_SUM, 0, 0)));
    GS_TRY(check_pair(row_of(1, LAB_SUM, 1, 0), row_of(1, LAB_SAMPLES, 0, 1)));
    GS_TRY(check_pair(row_of(1, LAB_Y, 0, 1), row_of(1, LAB_Y, 1, 0)));
    GS_TRY(check_pair(row_of(1, LAB_DX, 0, 0), row_of(1, LAB_DX, 1, 0)));
    GS_TRY(check_pair(row_of(1, LAB_DX, 1, 0), row_of(1, LAB_DW, 0, 0)));
    GS_TRY(check_pair(row_of(1, LAB_DW, 0, 0), row_of(1, LAB_DX, 0, 0)));
    GS_TRY(check_pair(row_of(1, LAB_DW, 1, 1), row_of(1, LAB_DW, 1, 0)));
    for (size_t i = 0; i < 400; i++) {
        int of[2][4];
        for (size_t k = 0; k < 2; k++) {
            of[k][0] = 1 + (int)lab_pick(ROWS_ROW, 1000 + 8 * i + k, 2);
            of[k][1] = (int)lab_pick(ROWS_ROW, 1002 + 8 * i + k, LAB_QUANTITIES);
            of[k][2] = (int)lab_pick(ROWS_ROW, 1004 + 8 * i + k, 4);
            of[k][3] = (int)lab_pick(RANKS_ROW, 2 * i + k, 3);
        }
        if (i % 4 > 0) of[1][0] = of[0][0]; /* most pairs are of one step, many in backward */
        if (i % 4 > 1)
            for (int k = 0; k < 2; k++) of[k][1] = of[k][1] % 2 ? LAB_DW : LAB_DX;
        if (i % 4 > 2) of[1][1] = of[0][1];
        for (int k = 0; k < 2 && i % 5 == 0; k++) /* a long run of a deep model, and many ranks */
            of[k][0] *= 1000, of[k][2] *= 30, of[k][3] *= 40;
        const lab_row x = row_of(of[0][0], of[0][1], of[0][2], of[0][3]),
                      y = row_of(of[1][0], of[1][1], of[1][2], of[1][3]);
        GS_TRY(check_pair(x, y));
        GS_TRY(check_pair(y, x));
    }
    return GS_OK;
}

/* ---- 22.5 ---- */

enum { MOST_DRAWS = 64 };

static const char *of_draws_text(int same) {
    static const char *const text[] = {"0", "LAB_SAME_ON_RANKS", "LAB_SAME_IN_STEPS", "the sum of both"};
    return same >= 0 && same < 4 ? text[same] : "something else";
}

/* Draw number i of this case: all differ. */
static lab_numbers drawn(size_t number, int i) {
    lab_numbers x = {.n = 2 + lab_pick(COUNTS_ROW, number, 3)};
    for (size_t k = 0; k < LAB_ALONG; k++) x.along[k] = (double)lab_number(DRAWS_ROW, 4 * number + k) * 10;
    if (i > 0) x.along[0] = (double)lab_number(DRAWS_ROW, 4 * number) * 10 + i;
    return x;
}

static gs_status check_draws(int steps, int ranks, const lab_numbers *x, const char *what, int wanted) {
    const int got = lab_of_draws(steps, ranks, x);
    LAB_CHECK(got == wanted, "%d step%s, %d rank%s; %s: expected %s, got %s (%d)", steps, gs_s((size_t)steps),
              ranks, gs_s((size_t)ranks), what, of_draws_text(wanted), of_draws_text(got), got);
    return GS_OK;
}

/* Checks draws that all differ, then with copies. */
static gs_status check_planted(size_t number, int steps, int ranks) {
    lab_numbers x[MOST_DRAWS], y[MOST_DRAWS];
    char what[120];
    const int all = steps * ranks;
    for (int i = 0; i < all; i++) x[i] = drawn(number, i);
    GS_TRY(check_draws(steps, ranks, x, "all draws are different", 0));
    const int s = (int)lab_pick(WHO_ROW, 4 * number, (size_t)steps),
              r = (int)lab_pick(WHO_ROW, 4 * number + 1, (size_t)ranks);
    const int other_s = (s + 1 + (int)lab_pick(WHO_ROW, 4 * number + 2, (size_t)steps)) % steps,
              other_r = (r + 1 + (int)lab_pick(WHO_ROW, 4 * number + 3, (size_t)ranks)) % ranks;
    memcpy(y, x, sizeof y);
    y[other_s * ranks + other_r] = y[s * ranks + r];
    const bool is_one = other_s == s && other_r == r;
    const int wanted = is_one ? 0 : other_s == s ? LAB_SAME_ON_RANKS : other_r == r ? LAB_SAME_IN_STEPS : 0;
    snprintf(what, sizeof what, "rank %d in step %d drew the same as rank %d in step %d", other_r, other_s, r,
             s);
    GS_TRY(check_draws(steps, ranks, y, is_one ? "all draws are different" : what, wanted));
    for (int k = 0; k < LAB_ALONG && !is_one; k++) { /* nearly the same */
        y[other_s * ranks + other_r] = y[s * ranks + r];
        y[other_s * ranks + other_r].along[k] += 0.5;
        GS_TRY(check_draws(steps, ranks, y, "two draws have three of four numbers in common", 0));
    }
    memcpy(y, x, sizeof y);
    for (int q = 0; q < ranks; q++) y[s * ranks + q] = (lab_numbers){0};
    y[other_s * ranks + other_r] = (lab_numbers){0};
    snprintf(what, sizeof what, "no rank has samples in step %d, nor rank %d in step %d", s, other_r,
             other_s);
    return check_draws(steps, ranks, y, what, 0);
}

gs_status check_of_draws(void) {
    static const int steps[] = {1, 1, 2, 2, 3, 3, 4, 5}, ranks[] = {1, 2, 1, 2, 2, 4, 3, 8};
    for (size_t i = 0; i < 8; i++) GS_TRY(check_planted(i, steps[i], ranks[i]));
    for (size_t i = 8; i < 60; i++)
        GS_TRY(check_planted(i, 1 + (int)lab_pick(RANKS_ROW, 2000 + i, 6),
                             1 + (int)lab_pick(RANKS_ROW, 3000 + i, 6)));
    lab_numbers all[6]; /* one draw in all places: each name counts once */
    for (int i = 0; i < 6; i++) all[i] = drawn(200, 0);
    GS_TRY(check_draws(1, 3, all, "all ranks have drawn the same", LAB_SAME_ON_RANKS));
    GS_TRY(check_draws(3, 1, all, "the rank has drawn the same in all steps", LAB_SAME_IN_STEPS));
    GS_TRY(check_draws(2, 3, all, "all draws are the same", LAB_SAME_ON_RANKS | LAB_SAME_IN_STEPS));
    lab_numbers x[6]; /* both names */
    for (int i = 0; i < 6; i++) x[i] = drawn(100, i);
    x[1] = x[0];
    x[5] = x[2];
    return check_draws(2, 3, x, "rank 1 has drawn what rank 0 drew, and rank 2 twice the same",
                       LAB_SAME_ON_RANKS | LAB_SAME_IN_STEPS);
}

/* ---- 22.6 ---- */

gs_status check_shrink(void) {
    for (size_t i = 0; i < 60; i++) {
        const int ranks = i < 4 ? 1 : 1 + (int)lab_pick(RANKS_ROW, 4000 + i, 5);
        const double samples = i < 2 ? 1 : 1 + (double)lab_pick(COUNTS_ROW, 4000 + i, 64);
        double own[5], squares = 0,
                       common = i % 3 == 0 ? 0 : 2 * fabs((double)lab_number(SQUARES_ROW, 8 * i + 7));
        for (int r = 0; r < ranks; r++) {
            own[r] = fabs((double)lab_number(SQUARES_ROW, 8 * i + (size_t)r)) * 4;
            squares += own[r];
        }
        const double norm = sqrt(squares + common) / samples,
                     clip = norm * (i % 2 == 0 ? 0.1 + 0.8 * fabs((double)lab_number(SQUARES_ROW, 8 * i + 6))
                                               : 1.05);
        const double wanted = i % 2 == 0 ? clip / norm : 1,
                     got = lab_shrink(ranks, own, common, samples, clip);
        LAB_CHECK(fabs(got - wanted) <= 1e-9,
                  "%d rank%s, squares of rank 0's own part %.4g, of the common part %.4g, %g sample%s: the "
                  "norm is %.4g, clip %.4g: expected %.4g, got %.4g",
                  ranks, gs_s((size_t)ranks), own[0], common, samples, samples > 1 ? "s" : "", norm, clip,
                  wanted, got);
    }
    return GS_OK;
}

/* ---- all ---- */

const char *const lab_may_call[] = {NULL};

const lab_task lab_tasks[] = {
    {"22.1", "do two arrays differ?", 1, check_differs,
     "one of the four numbers is enough; the size decides what is far; and every comparison with NaN is "
     "false."},
    {"22.2", "which was computed first?", 2, check_before,
     "write down dx and dw of a net with two layers, in the order in which backward computes them."},
    {"22.3", "what happened to the sum", 2, check_of_sum,
     "write the shares as a table: a row for each rank's sum, a column for each gradient in it."},
    {"22.4", "what happened to the loss", 2, check_of_loss,
     "a name must fit every rank that has samples, each by its own count."},
    {"22.5", "what was drawn twice", 2, check_of_draws,
     "the same step and two ranks, or the same rank and two steps; two empty parts are not the same draw."},
    {"22.6", "find the bugs: the norm of a sharded gradient", 1, check_shrink,
     "count the part that all ranks hold once; and clip limits the mean gradient, not the sum."},
    {0},
};
