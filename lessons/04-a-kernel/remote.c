/* How the calls of lab 4 travel: products, which the kernels of lab.cl compute. */
#include "tasks.h"

#include "remote/remote.h"

enum { MULTIPLY };

typedef struct multiply_call {
    lab_multiplication x;
    gs_status status;
} multiply_call;

static void pass_multiply(lab_wire *w, void *arguments) {
    lab_multiplication *x = &((multiply_call *)arguments)->x;
    LAB_VALUES(w, x->rung, x->m, x->n, x->k, x->guard, x->counts);
    LAB_INOUT(w, x->c, x->m * x->n + x->guard);
    LAB_IN(w, x->a, x->m * x->k + x->guard);
    LAB_IN(w, x->b, x->k * x->n + x->guard);
    LAB_RESULT(w, x->loads);
    lab_status(w, &((multiply_call *)arguments)->status);
}

#ifdef LAB_HAND_IN

LAB_CALLER(call_multiply, multiply_call, a->status = lab_multiply(&a->x))

#else

gs_status lab_multiply(lab_multiplication *x) {
    multiply_call a = {*x, GS_OK};
    lab_remote(MULTIPLY, &a);
    x->loads = a.x.loads;
    return a.status;
}
#endif

const lab_function lab_functions[] = {
    {sizeof(multiply_call), pass_multiply, LAB_THEIRS(call_multiply)},
    {0},
};
