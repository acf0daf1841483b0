/* How the calls of lab 22 travel. */
#include "tasks.h"

#include "remote/remote.h"

enum { DIFFERS, BEFORE, OF_SUM, OF_LOSS, OF_DRAWS, SHRINK };

typedef struct differs_call {
    lab_row row;
    double tolerance;
    bool result;
} differs_call;

static void pass_differs(lab_wire *w, void *arguments) {
    differs_call *a = arguments;
    LAB_VALUES(w, a->row, a->tolerance);
    LAB_RESULT(w, a->result);
}

typedef struct before_call {
    lab_row x, y;
    bool result;
} before_call;

static void pass_before(lab_wire *w, void *arguments) {
    before_call *a = arguments;
    LAB_VALUES(w, a->x, a->y);
    LAB_RESULT(w, a->result);
}

typedef struct of_sum_call {
    int ranks;
    const double *share;
    lab_sum result;
} of_sum_call;

static void pass_of_sum(lab_wire *w, void *arguments) {
    of_sum_call *a = arguments;
    LAB_VALUE(w, a->ranks);
    LAB_IN(w, a->share, (size_t)a->ranks * (size_t)a->ranks);
    LAB_RESULT(w, a->result);
}

typedef struct of_loss_call {
    int ranks;
    const size_t *n;
    const double *factor;
    lab_loss result;
} of_loss_call;

static void pass_of_loss(lab_wire *w, void *arguments) {
    of_loss_call *a = arguments;
    LAB_VALUE(w, a->ranks);
    LAB_IN(w, a->n, (size_t)a->ranks);
    LAB_IN(w, a->factor, (size_t)a->ranks);
    LAB_RESULT(w, a->result);
}

typedef struct of_draws_call {
    int steps, ranks;
    const lab_numbers *x;
    int result;
} of_draws_call;

static void pass_of_draws(lab_wire *w, void *arguments) {
    of_draws_call *a = arguments;
    LAB_VALUES(w, a->steps, a->ranks);
    LAB_IN(w, a->x, (size_t)a->steps * (size_t)a->ranks);
    LAB_RESULT(w, a->result);
}

typedef struct shrink_call {
    int ranks;
    const double *own;
    double common, samples, clip, result;
} shrink_call;

static void pass_shrink(lab_wire *w, void *arguments) {
    shrink_call *a = arguments;
    LAB_VALUE(w, a->ranks);
    LAB_IN(w, a->own, (size_t)a->ranks);
    LAB_VALUES(w, a->common, a->samples, a->clip);
    LAB_RESULT(w, a->result);
}

#ifdef LAB_HAND_IN

LAB_CALLER(call_differs, differs_call, a->result = lab_differs(&a->row, a->tolerance))
LAB_CALLER(call_before, before_call, a->result = lab_before(&a->x, &a->y))
LAB_CALLER(call_of_sum, of_sum_call, a->result = lab_of_sum(a->ranks, a->share))
LAB_CALLER(call_of_loss, of_loss_call, a->result = lab_of_loss(a->ranks, a->n, a->factor))
LAB_CALLER(call_of_draws, of_draws_call, a->result = lab_of_draws(a->steps, a->ranks, a->x))
LAB_CALLER(call_shrink, shrink_call, a->result = lab_shrink(a->ranks, a->own, a->common, a->samples, a->clip))

#else

bool lab_differs(const lab_row *x, double tolerance) {
    LAB_ASK(DIFFERS, differs_call, result, *x, tolerance, false);
}

bool lab_before(const lab_row *x, const lab_row *y) {
    LAB_ASK(BEFORE, before_call, result, *x, *y, false);
}

lab_sum lab_of_sum(int ranks, const double *share) {
    LAB_ASK(OF_SUM, of_sum_call, result, ranks, share, LAB_SUM_RIGHT);
}

lab_loss lab_of_loss(int ranks, const size_t *n, const double *factor) {
    LAB_ASK(OF_LOSS, of_loss_call, result, ranks, n, factor, LAB_LOSS_RIGHT);
}

int lab_of_draws(int steps, int ranks, const lab_numbers *x) {
    LAB_ASK(OF_DRAWS, of_draws_call, result, steps, ranks, x, 0);
}

double lab_shrink(int ranks, const double *own, double common, double samples, double clip) {
    LAB_ASK(SHRINK, shrink_call, result, ranks, own, common, samples, clip, 0);
}
#endif

const lab_function lab_functions[] = {
    {sizeof(differs_call), pass_differs, LAB_THEIRS(call_differs)},
    {sizeof(before_call), pass_before, LAB_THEIRS(call_before)},
    {sizeof(of_sum_call), pass_of_sum, LAB_THEIRS(call_of_sum)},
    {sizeof(of_loss_call), pass_of_loss, LAB_THEIRS(call_of_loss)},
    {sizeof(of_draws_call), pass_of_draws, LAB_THEIRS(call_of_draws)},
    {sizeof(shrink_call), pass_shrink, LAB_THEIRS(call_shrink)},
    {0},
};
