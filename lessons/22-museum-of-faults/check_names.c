/* 22.3 and 22.4: plants each name, with drawn ranks and counts. */
#include "check.h"

#include <math.h>
#include <stdio.h>
#include "lab.h"
#include "tasks.h"

enum { MOST = 8 }; /* ranks */

/* ---- 22.3 ---- */

static const char *const sums[] = {"LAB_SUM_RIGHT",  "LAB_SUMMED_TWICE",  "LAB_AVERAGED",
                                   "LAB_NOT_SUMMED", "LAB_WITHIN_GROUPS", "LAB_RANK_MISSING",
                                   "LAB_RANK_TWICE", "LAB_SUM_OTHERWISE"};
enum { SUMS = sizeof sums / sizeof *sums };

static const char *shares_text(int ranks, const double *share) {
    static char text[400];
    *text = '\0';
    for (int r = 0; r < ranks && r < 4; r++) {
        lab_append(text, sizeof text, "%srank %d has", r ? "; " : "", r);
        for (int q = 0; q < ranks; q++) lab_append(text, sizeof text, " %.4g", share[r * ranks + q]);
    }
    return text;
}

static gs_status check_shares(int ranks, const double *share, lab_sum wanted) {
    double rounded[MOST * MOST]; /* as least squares finds them */
    for (int i = 0; i < ranks * ranks; i++)
        rounded[i] = share[i] + 1e-4 * (double)lab_number(NAMES_ROW, (size_t)i);
    const lab_sum got = lab_of_sum(ranks, rounded);
    LAB_CHECK(got == wanted, "%d ranks; %s%s: expected %s, got %s", ranks, shares_text(ranks, share),
              ranks > 4 ? "; ..." : "", sums[wanted],
              (unsigned)got < SUMS ? sums[got] : "no name of the list");
    return GS_OK;
}

static void fill(int ranks, double *share, double with) {
    for (int i = 0; i < ranks * ranks; i++) share[i] = with;
}

/* The gradient of rank q counts `times` on all ranks. */
static void count_rank(int ranks, double *share, int q, double times) {
    for (int r = 0; r < ranks; r++) share[r * ranks + q] = times;
}

/* Ranks 0 .. first-1 are a group, and those from `first` on. */
static void group(int ranks, double *share, int first) {
    for (int r = 0; r < ranks; r++)
        for (int q = 0; q < ranks; q++) share[r * ranks + q] = (r < first) == (q < first);
}

/* Checks that these shares have this name, and no name when one of them changes. */
static gs_status check_named(int ranks, double *share, lab_sum name) {
    static size_t drawn;
    GS_TRY(check_shares(ranks, share, name));
    const int count = ranks * ranks, at = (int)lab_pick(PLACES_ROW, 7000 + drawn++ % 100, (size_t)count);
    for (int i = 0; i < count; i++) {
        if (ranks > 3 && i != at) continue; /* with few ranks every share */
        const double right = share[i], wrong[] = {right + 0.5, right + 0.1, right - 0.1, (double)NAN};
        for (size_t k = 0; k < sizeof wrong / sizeof *wrong; k++) {
            share[i] = wrong[k];
            const gs_status status = check_shares(ranks, share, LAB_SUM_OTHERWISE);
            share[i] = right;
            GS_TRY(status);
        }
    }
    return GS_OK;
}

/* Each rank draws its group, so the ranks of a group need not be neighbours. */
static gs_status check_groups(int ranks, size_t number) {
    double s[MOST * MOST];
    int of[MOST], ones = 0;
    for (int r = 0; r < ranks; r++)
        of[r] = (int)lab_pick(PLACES_ROW, 8000 + MOST * number + (size_t)r, (size_t)ranks);
    for (int i = 0; i < ranks * ranks; i++) {
        s[i] = of[i / ranks] == of[i % ranks];
        ones += s[i] > 0;
    }
    return check_named(ranks, s,
                       ones == ranks           ? LAB_NOT_SUMMED
                       : ones == ranks * ranks ? LAB_SUM_RIGHT
                                               : LAB_WITHIN_GROUPS);
}

static gs_status check_sum_of(int ranks, int who) {
    double s[MOST * MOST];
    const int other = (who + 1) % ranks;
    fill(ranks, s, 1);
    GS_TRY(check_named(ranks, s, LAB_SUM_RIGHT));
    fill(ranks, s, ranks);
    GS_TRY(check_named(ranks, s, LAB_SUMMED_TWICE));
    fill(ranks, s, 1.0 / ranks);
    GS_TRY(check_named(ranks, s, LAB_AVERAGED));
    for (int i = 0; i < ranks * ranks; i++) s[i] = i / ranks == i % ranks;
    GS_TRY(check_named(ranks, s, LAB_NOT_SUMMED));
    fill(ranks, s, 1);
    count_rank(ranks, s, who, 0);
    GS_TRY(check_named(ranks, s, LAB_RANK_MISSING));
    count_rank(ranks, s, other, 0.5); /* and half of another is missing */
    GS_TRY(check_shares(ranks, s, LAB_SUM_OTHERWISE));
    count_rank(ranks, s, who, 2);
    GS_TRY(check_shares(ranks, s, LAB_SUM_OTHERWISE));
    count_rank(ranks, s, other, 1);
    GS_TRY(check_named(ranks, s, LAB_RANK_TWICE));
    if (ranks > 2) {
        group(ranks, s, 1 + who % (ranks - 1));
        GS_TRY(check_named(ranks, s, LAB_WITHIN_GROUPS));
        fill(ranks, s, 1);
        count_rank(ranks, s, who, 0);
        count_rank(ranks, s, other, 2); /* the total is right */
        GS_TRY(check_shares(ranks, s, LAB_SUM_OTHERWISE));
        count_rank(ranks, s, other, 0); /* two are missing */
        GS_TRY(check_shares(ranks, s, LAB_SUM_OTHERWISE));
        fill(ranks, s, 0); /* only one rank's, on all ranks */
        count_rank(ranks, s, who, 1);
        GS_TRY(check_shares(ranks, s, LAB_SUM_OTHERWISE));
    }
    fill(ranks, s, 1);
    s[who * ranks + who] = 0; /* a rank lacks its own, which the others have */
    GS_TRY(check_shares(ranks, s, LAB_SUM_OTHERWISE));
    for (int i = 0; i < ranks * ranks; i++)
        s[i] = i / ranks == i % ranks ? 2 : 1; /* each has its own twice: as many as of one rank twice */
    GS_TRY(check_shares(ranks, s, LAB_SUM_OTHERWISE));
    for (int i = 0; i < ranks * ranks && ranks > 2; i++)
        s[i] = i / ranks != (i % ranks + 1) % ranks; /* each lacks a neighbour's: as many as of one missing */
    if (ranks > 2) GS_TRY(check_shares(ranks, s, LAB_WITHIN_GROUPS));
    fill(ranks, s, (double)NAN);
    GS_TRY(check_shares(ranks, s, LAB_SUM_OTHERWISE));
    for (int i = 0; i < ranks * ranks; i++)
        s[i] = i / ranks == (i % ranks + 1) % ranks; /* each its neighbour's */
    GS_TRY(check_shares(ranks, s, LAB_SUM_OTHERWISE));
    fill(ranks, s, 0);
    GS_TRY(check_shares(ranks, s, LAB_SUM_OTHERWISE));
    fill(ranks, s, 0.7);
    return check_shares(ranks, s, LAB_SUM_OTHERWISE);
}

gs_status check_of_sum(void) {
    GS_TRY(check_sum_of(2, 0));
    GS_TRY(check_sum_of(3, 1));
    GS_TRY(check_sum_of(4, 2));
    for (size_t i = 0; i < 20; i++) {
        const int ranks = 2 + (int)lab_pick(RANKS_ROW, 5000 + i, MOST - 1);
        GS_TRY(check_sum_of(ranks, (int)lab_pick(WHO_ROW, 5000 + i, (size_t)ranks)));
        GS_TRY(check_groups(ranks, i));
    }
    return GS_OK;
}

/* ---- 22.4 ---- */

static const char *const losses[] = {"LAB_LOSS_RIGHT",    "LAB_BY_RANKS", "LAB_TIMES_RANKS",
                                     "LAB_MEAN_OF_MEANS", "LAB_MASKED",   "LAB_LOSS_OTHERWISE"};
enum { LOSSES = sizeof losses / sizeof *losses };

static gs_status check_factors(int ranks, const size_t *n, const double *factor, lab_loss wanted) {
    char text[300] = "";
    double rounded[MOST];
    for (int r = 0; r < ranks; r++) {
        rounded[r] =
            n[r] ? factor[r] * (1 + 1e-4 * (double)lab_number(NAMES_ROW, 100 + (size_t)r)) : (double)NAN;
        lab_append(text, sizeof text, "%s%zu x %.4g", r ? ", " : "", n[r], rounded[r]);
    }
    const lab_loss got = lab_of_loss(ranks, n, rounded);
    LAB_CHECK(got == wanted, "samples x factor of %d rank%s: %s: expected %s, got %s", ranks,
              gs_s((size_t)ranks), text, losses[wanted],
              (unsigned)got < LOSSES ? losses[got] : "no name of the list");
    return GS_OK;
}

/* The first name that fits these factors. */
static lab_loss first_name(int ranks, const size_t *n, const double *factor) {
    double all = 0;
    for (int r = 0; r < ranks; r++) all += (double)n[r];
    for (int name = 0; name < LAB_LOSS_OTHERWISE; name++) {
        bool fits = true;
        for (int r = 0; r < ranks && fits; r++) {
            const double wanted[] = {1, 1.0 / ranks, ranks, all / (ranks * fmax((double)n[r], 1)),
                                     factor[r] < 0.5 ? 0 : 1};
            fits = n[r] == 0 || lab_near(factor[r], wanted[name]);
        }
        if (fits) return (lab_loss)name;
    }
    return LAB_LOSS_OTHERWISE;
}

/* Checks the factors of `name`, with the ranks of `masked` masked; and with another factor of rank `who`. */
static gs_status check_planted(int ranks, const size_t *n, int name, int who, unsigned masked) {
    double factor[MOST], all = 0;
    for (int r = 0; r < ranks; r++) all += (double)n[r];
    for (int r = 0; r < ranks; r++) {
        const double samples = fmax((double)n[r], 1);
        factor[r] = name == LAB_BY_RANKS        ? 1.0 / ranks
                    : name == LAB_TIMES_RANKS   ? ranks
                    : name == LAB_MEAN_OF_MEANS ? all / (ranks * samples)
                    : name == LAB_MASKED        ? !(masked >> r & 1)
                    : name == LAB_LOSS_RIGHT    ? 1
                    : r == who                  ? 1.7
                                                : 1;
    }
    GS_TRY(check_factors(ranks, n, factor, first_name(ranks, n, factor)));
    factor[who] += 0.15;
    GS_TRY(check_factors(ranks, n, factor, first_name(ranks, n, factor)));
    factor[who] = (double)NAN; /* also for a rank with samples, whose loss is not a number */
    return check_factors(ranks, n, factor, first_name(ranks, n, factor));
}

gs_status check_of_loss(void) {
    static const size_t equal[] = {5, 5, 5}, unequal[] = {6, 3, 1}, ragged[] = {3, 2, 0};
    for (int name = 0; name < (int)LOSSES; name++) {
        GS_TRY(check_planted(1, equal, name, 0, 1));
        GS_TRY(check_planted(2, equal, name, 1, 2));
        GS_TRY(check_planted(3, unequal, name, 0, 5));
        GS_TRY(check_planted(3, ragged, name, 1, 2));
    }
    for (size_t i = 0; i < 120; i++) {
        const int ranks = 1 + (int)lab_pick(RANKS_ROW, 6000 + i, MOST),
                  name = (int)lab_pick(NAMES_ROW, 6000 + i, LOSSES);
        size_t n[MOST];
        for (size_t r = 0; r < (size_t)ranks; r++) n[r] = lab_pick(COUNTS_ROW, 6000 + MOST * i + r, 12);
        n[0]++;
        GS_TRY(check_planted(ranks, n, name, (int)lab_pick(WHO_ROW, 6000 + i, (size_t)ranks),
                             (unsigned)lab_pick(PLACES_ROW, 6000 + i, 1U << MOST)));
    }
    return GS_OK;
}
