/* Lab 22: the parts of your own `explain`. See README.md, and tasks.h for what each function must do. */
#include "tasks.h"

#include "lab.h"

bool lab_differs(const lab_row *x, double tolerance) {
    /* task 22.1: compare each of the four numbers. What does a comparison with NaN return? */
    (void)x, (void)tolerance;
    lab_blank("22.1");
    return false;
    /* end of task 22.1 */
}

bool lab_before(const lab_row *x, const lab_row *y) {
    /* task 22.2: through which layers does forward go, and through which does backward? lab_is_backward tells rows of
     * backward. */
    (void)x, (void)y;
    lab_blank("22.2");
    return false;
    /* end of task 22.2 */
}

lab_sum lab_of_sum(int ranks, const double *share) {
    /* task 22.3: how many shares are 0, 1, 2, `ranks`, 1 / ranks? Do all ranks have the same shares? Does each contain
     * its own gradient? */
    (void)ranks, (void)share;
    lab_blank("22.3");
    return LAB_SUM_OTHERWISE;
    /* end of task 22.3 */
}

lab_loss lab_of_loss(int ranks, const size_t *n, const double *factor) {
    /* task 22.4: each name predicts a factor for each rank that has samples. Which name predicts them all? */
    (void)ranks, (void)n, (void)factor;
    lab_blank("22.4");
    return LAB_LOSS_OTHERWISE;
    /* end of task 22.4 */
}

int lab_of_draws(int steps, int ranks, const lab_numbers *x) {
    /* task 22.5: compare each draw with the later ones (lab_equal). Are they of one step, or of one rank? */
    (void)steps, (void)ranks, (void)x;
    lab_blank("22.5");
    return 0;
    /* end of task 22.5 */
}

double lab_shrink(int ranks, const double *own, double common, double samples, double clip) {
    /* task 22.6: find the two bugs. One shows with the second rank, the other with the second sample. (As handed out,
     * the code begins with a line that says it is not done. Remove that line when you have fixed the rest.) */
    lab_blank("22.6");
    double squares = 0;
    for (int r = 0; r < ranks; r++) squares += own[r] + common;
    double norm = sqrt(squares);
    (void)samples;
    return norm > clip ? clip / norm : 1;
    /* end of task 22.6 */
}
