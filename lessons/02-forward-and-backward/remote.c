/* How the calls of lab 2 travel. */
#include "tasks.h"

#include "remote/remote.h"

enum { LINEAR_DX, LINEAR_DW_DB, LOSS_DX, DIFFERENCE, LINEAR, LOSS, VALUE_OF_F };

/* ---- functions of arrays ---- */

typedef struct linear_call {
    float *dx, *dw, *db;
    const float *dy, *x, *w;
    size_t n, in, out;
    gs_status status;
} linear_call;

/* For both functions; the arrays that one of them lacks are NULL. */
static void pass_linear_arrays(lab_wire *w, void *arguments) {
    linear_call *a = arguments;
    LAB_VALUES(w, a->n, a->in, a->out);
    LAB_INOUT(w, a->dx, a->n * a->in);
    LAB_INOUT(w, a->dw, a->out * a->in);
    LAB_INOUT(w, a->db, a->out);
    LAB_IN(w, a->dy, a->n * a->out);
    LAB_IN(w, a->x, a->n * a->in);
    LAB_IN(w, a->w, a->out * a->in);
    lab_status(w, &a->status);
}

typedef struct loss_call {
    float *dx;
    const float *p;
    const int32_t *labels;
    size_t n, classes;
    gs_status status;
} loss_call;

static void pass_loss_dx(lab_wire *w, void *arguments) {
    loss_call *a = arguments;
    LAB_VALUES(w, a->n, a->classes);
    LAB_INOUT(w, a->dx, a->n * a->classes);
    LAB_IN(w, a->p, a->n * a->classes);
    LAB_IN(w, a->labels, a->n);
    lab_status(w, &a->status);
}

/* ---- the difference quotient: f is the checker's, of a number that the hand-in has changed ---- */

typedef struct difference_call {
    float *x;
    float h;
    double quotient;
} difference_call;

static void pass_difference(lab_wire *w, void *arguments) {
    difference_call *a = arguments;
    LAB_VALUE(w, a->h);
    LAB_INOUT(w, a->x, 1);
    LAB_RESULT(w, a->quotient);
}

typedef struct value_call {
    float x;
    double value;
} value_call;

static void pass_value(lab_wire *w, void *arguments) {
    value_call *a = arguments;
    LAB_VALUE(w, a->x);
    LAB_RESULT(w, a->value);
}

/* ---- operators ---- */

typedef struct operator_call {
    gs_mem dx, dw, db, dy, x, w; /* of linear */
    gs_mem p, labels;            /* and, with dx, of the loss */
    size_t n;
    int in, out;
    gs_status status;
} operator_call;

static void pass_linear(lab_wire *w, void *arguments) {
    operator_call *a = arguments;
    LAB_VALUES(w, a->n, a->in, a->out);
    const size_t in = (size_t)a->in, out = (size_t)a->out;
    lab_pass_mem(w, &a->dx, a->n * in, true);
    lab_pass_mem(w, &a->dw, out * in, true);
    lab_pass_mem(w, &a->db, out, true);
    lab_pass_mem(w, &a->dy, a->n * out, false);
    lab_pass_mem(w, &a->x, a->n * in, false);
    lab_pass_mem(w, &a->w, out * in, false);
    lab_status(w, &a->status);
}

static void pass_loss(lab_wire *w, void *arguments) {
    operator_call *a = arguments;
    LAB_VALUES(w, a->n, a->out);
    lab_pass_mem(w, &a->dx, a->n * (size_t)a->out, true);
    lab_pass_mem(w, &a->p, a->n * (size_t)a->out, false);
    lab_pass_mem(w, &a->labels, a->n, false);
    lab_status(w, &a->status);
}

#ifdef LAB_HAND_IN

LAB_CALLER(call_linear_dx, linear_call, a->status = linear_dx(a->dx, a->dy, a->w, a->n, a->in, a->out))
LAB_CALLER(call_linear_dw_db, linear_call,
           a->status = linear_dw_db(a->dw, a->db, a->dy, a->x, a->n, a->in, a->out))
LAB_CALLER(call_loss_dx, loss_call,
           a->status = softmax_cross_entropy_dx(a->dx, a->p, a->labels, a->n, a->classes))

/* The f that a student calls; `context` is the call. */
static double value_of_f(void *context) {
    value_call a = {.x = *((difference_call *)context)->x};
    lab_remote(VALUE_OF_F, &a);
    return a.value;
}

LAB_CALLER(call_difference, difference_call, a->quotient = lab_difference(value_of_f, a, a->x, a->h))
LAB_CALLER(call_linear, operator_call,
           a->status = linear_backward(a->dx, a->dw, a->db, a->dy, a->x, a->w, a->n, a->in, a->out))
LAB_CALLER(call_loss, operator_call,
           a->status = softmax_cross_entropy_backward(a->dx, a->p, a->labels, a->n, a->out))

#else

gs_status linear_dx(float *dx, const float *dy, const float *w, size_t n, size_t in, size_t out) {
    LAB_ASK(LINEAR_DX, linear_call, status, .dx = dx, .dy = dy, .w = w, .n = n, .in = in, .out = out);
}

gs_status linear_dw_db(float *dw, float *db, const float *dy, const float *x, size_t n, size_t in,
                       size_t out) {
    LAB_ASK(LINEAR_DW_DB, linear_call, status, .dw = dw, .db = db, .dy = dy, .x = x, .n = n, .in = in,
            .out = out);
}

gs_status softmax_cross_entropy_dx(float *dx, const float *p, const int32_t *labels, size_t n,
                                   size_t classes) {
    LAB_ASK(LOSS_DX, loss_call, status, dx, p, labels, n, classes, GS_OK);
}

/* Of the difference quotient that this thread waits for. */
static _Thread_local struct {
    double (*f)(void *context);
    void *context;
    float *x;
} now;

static void call_value(void *arguments) {
    value_call *a = arguments;
    if (!now.f) return; /* the student called f outside lab_difference */
    *now.x = a->x;
    a->value = now.f(now.context);
}

double lab_difference(double (*f)(void *context), void *context, float *x, float h) {
    difference_call a = {x, h, 0};
    now.f = f, now.context = context, now.x = x;
    lab_remote(DIFFERENCE, &a);
    now.f = NULL;
    return a.quotient;
}

gs_status linear_backward(gs_mem dx, gs_mem dw, gs_mem db, gs_mem dy, gs_mem x, gs_mem w, size_t n, int in,
                          int out) {
    LAB_ASK(LINEAR, operator_call, status, .dx = dx, .dw = dw, .db = db, .dy = dy, .x = x, .w = w, .n = n,
            .in = in, .out = out);
}

gs_status softmax_cross_entropy_backward(gs_mem dx, gs_mem p, gs_mem labels, size_t n, int classes) {
    LAB_ASK(LOSS, operator_call, status, .dx = dx, .p = p, .labels = labels, .n = n, .out = classes);
}
#endif

const lab_function lab_functions[] = {
    {sizeof(linear_call), pass_linear_arrays, LAB_THEIRS(call_linear_dx)},
    {sizeof(linear_call), pass_linear_arrays, LAB_THEIRS(call_linear_dw_db)},
    {sizeof(loss_call), pass_loss_dx, LAB_THEIRS(call_loss_dx)},
    {sizeof(difference_call), pass_difference, LAB_THEIRS(call_difference)},
    {sizeof(operator_call), pass_linear, LAB_THEIRS(call_linear)},
    {sizeof(operator_call), pass_loss, LAB_THEIRS(call_loss)},
    {sizeof(value_call), pass_value, LAB_OURS(call_value)},
    {0},
};
