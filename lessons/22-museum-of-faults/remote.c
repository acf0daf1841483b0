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
    LAB_VALUE(w, a->row);
    LAB_VALUE(w, a->tolerance);
    LAB_RESULT(w, a->result);
}

typedef struct before_call {
    lab_row x, y;
    bool result;
} before_call;

static void pass_before(lab_wire *w, void *arguments) {
    before_call *a = arguments;
    LAB_VALUE(w, a->x);
    LAB_VALUE(w, a->y);
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
    LAB_VALUE(w, a->steps);
    LAB_VALUE(w, a->ranks);
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
    LAB_VALUE(w, a->common);
    LAB_VALUE(w, a->samples);
    LAB_VALUE(w, a->clip);
    LAB_RESULT(w, a->result);
}

#ifdef LAB_HAND_IN

static void call_differs(void *arguments) {
    differs_call *a = arguments;
    a->result = lab_differs(&a->row, a->tolerance);
}

static void call_before(void *arguments) {
    before_call *a = arguments;
    a->result = lab_before(&a->x, &a->y);
}

static void call_of_sum(void *arguments) {
    of_sum_call *a = arguments;
    a->result = lab_of_sum(a->ranks, a->share);
}

static void call_of_loss(void *arguments) {
    of_loss_call *a = arguments;
    a->result = lab_of_loss(a->ranks, a->n, a->factor);
}

static void call_of_draws(void *arguments) {
    of_draws_call *a = arguments;
    a->result = lab_of_draws(a->steps, a->ranks, a->x);
}

static void call_shrink(void *arguments) {
    shrink_call *a = arguments;
    a->result = lab_shrink(a->ranks, a->own, a->common, a->samples, a->clip);
}

#else

bool lab_differs(const lab_row *x, double tolerance) {
    differs_call a = {*x, tolerance, false};
    lab_remote(DIFFERS, &a);
    return a.result;
}

bool lab_before(const lab_row *x, const lab_row *y) {
    before_call a = {*x, *y, false};
    lab_remote(BEFORE, &a);
    return a.result;
}

lab_sum lab_of_sum(int ranks, const double *share) {
    of_sum_call a = {ranks, share, LAB_SUM_RIGHT};
    lab_remote(OF_SUM, &a);
    return a.result;
}

lab_loss lab_of_loss(int ranks, const size_t *n, const double *factor) {
    of_loss_call a = {ranks, n, factor, LAB_LOSS_RIGHT};
    lab_remote(OF_LOSS, &a);
    return a.result;
}

int lab_of_draws(int steps, int ranks, const lab_numbers *x) {
    of_draws_call a = {steps, ranks, x, 0};
    lab_remote(OF_DRAWS, &a);
    return a.result;
}

double lab_shrink(int ranks, const double *own, double common, double samples, double clip) {
    shrink_call a = {ranks, own, common, samples, clip, 0};
    lab_remote(SHRINK, &a);
    return a.result;
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
