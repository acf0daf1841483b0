/* Lab 22: the parts of your own `explain`. See README.md, and tasks.h for what each function must do. */
#include "tasks.h"

#include "lab.h"

bool lab_differs(const lab_row *x, double tolerance) {
    /* task 22.1: compare each of the four numbers. What does a comparison with NaN return? */
    for (int k = 0; k < LAB_ALONG; k++)
        if (!(fabs(x->a[k] - x->b[k]) <= tolerance * x->size)) return true;
    return false;
    /* end of task 22.1 */
}

bool lab_before(const lab_row *x, const lab_row *y) {
    /* task 22.2: through which layers does forward go, and through which does backward? lab_is_backward tells rows of
     * backward. */
    if (x->step != y->step) return x->step < y->step;
    if (lab_is_backward(x) && lab_is_backward(y) && x->layer != y->layer) return x->layer > y->layer;
    if (x->quantity != y->quantity) return x->quantity < y->quantity;
    if (x->layer != y->layer) return x->layer < y->layer;
    return x->rank < y->rank;
    /* end of task 22.2 */
}

lab_sum lab_of_sum(int ranks, const double *share) {
    /* task 22.3: how many shares are 0, 1, 2, `ranks`, 1 / ranks? Do all ranks have the same shares? Does each contain
     * its own gradient? */
    int zeros = 0, ones = 0, twos = 0, all = 0, parts = 0, own = 0, n = ranks * ranks;
    bool alike = true;
    for (int i = 0; i < n; i++) {
        zeros += lab_near(share[i], 0);
        ones += lab_near(share[i], 1);
        twos += lab_near(share[i], 2);
        all += lab_near(share[i], ranks);
        parts += lab_near(share[i], 1.0 / ranks);
        own += i / ranks == i % ranks && lab_near(share[i], 1);
        alike = alike && lab_near(share[i], share[i % ranks]);
    }
    if (ones == n) return LAB_SUM_RIGHT;
    if (all == n) return LAB_SUMMED_TWICE;
    if (parts == n) return LAB_AVERAGED;
    if (alike && zeros == ranks && ones == n - ranks) return LAB_RANK_MISSING;
    if (alike && twos == ranks && ones == n - ranks) return LAB_RANK_TWICE;
    if (alike || own < ranks || zeros + ones < n) return LAB_SUM_OTHERWISE;
    return ones == ranks ? LAB_NOT_SUMMED : LAB_WITHIN_GROUPS;
    /* end of task 22.3 */
}

lab_loss lab_of_loss(int ranks, const size_t *n, const double *factor) {
    /* task 22.4: each name predicts a factor for each rank that has samples. Which name predicts them all? */
    bool right = true, by = true, times = true, means = true, masked = true;
    double all = 0;
    for (int r = 0; r < ranks; r++) all += (double)n[r];
    for (int r = 0; r < ranks; r++) {
        if (n[r] == 0) continue;
        right = right && lab_near(factor[r], 1);
        by = by && lab_near(factor[r], 1.0 / ranks);
        times = times && lab_near(factor[r], ranks);
        means = means && lab_near(factor[r], all / (ranks * (double)n[r]));
        masked = masked && (lab_near(factor[r], 0) || lab_near(factor[r], 1));
    }
    return right    ? LAB_LOSS_RIGHT
           : by     ? LAB_BY_RANKS
           : times  ? LAB_TIMES_RANKS
           : means  ? LAB_MEAN_OF_MEANS
           : masked ? LAB_MASKED
                    : LAB_LOSS_OTHERWISE;
    /* end of task 22.4 */
}

int lab_of_draws(int steps, int ranks, const lab_numbers *x) {
    /* task 22.5: compare each draw with the later ones (lab_equal). Are they of one step, or of one rank? */
    int same = 0;
    for (int i = 0; i < steps * ranks; i++)
        for (int j = i + 1; j < steps * ranks; j++) {
            if (x[i].n == 0 || !lab_equal(&x[i], &x[j])) continue;
            if (i / ranks == j / ranks) same |= LAB_SAME_ON_RANKS;
            if (i % ranks == j % ranks) same |= LAB_SAME_IN_STEPS;
        }
    return same;
    /* end of task 22.5 */
}

double lab_shrink(int ranks, const double *own, double common, double samples, double clip) {
    /* task 22.6: find the two bugs. One shows with the second rank, the other with the second sample. (As handed out,
     * the code begins with a line that says it is not done. Remove that line when you have fixed the rest.) */
    double squares = common;
    for (int r = 0; r < ranks; r++) squares += own[r];
    double norm = sqrt(squares) / samples;
    return norm > clip ? clip / norm : 1;
    /* end of task 22.6 */
}
