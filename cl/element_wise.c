/* The element-wise operators (GS_ELEMENT_WISE in backend.h): operator NAME uses the kernels NAME_forward and
 * NAME_backward in cl/NAME.cl. */
#include "cl/round16.h"

/* Compute `out` from a, from b if it exists, and from *number unless that is NULL. */
static gs_status run(gs_device *d, const char *file, const char *kernel, gs_mem out, gs_mem a, gs_mem b,
                     size_t count, const float *number) {
    gs_cl_arg arg[5] = {GS_ARG(out), GS_ARG(a)};
    int args = 2;
    if (b.half && strcmp(kernel, "relu_backward") == 0) return gs_cl_pass(d, out, a, b, count);
    if (b.base) arg[args++] = GS_ARG(b);
    arg[args++] = GS_ARG(count);
    if (number) arg[args++] = GS_ARG(*number);
    return gs_cl_run(d, file, kernel, gs_cl_elements(d, count), arg, args);
}

/* Like run, with b rounded. */
static gs_status run_rounded(gs_device *d, const char *file, const char *kernel, gs_mem out, gs_mem a,
                             gs_mem b, size_t count, const float *number) {
    const size_t some = gs_cl_at_once(d, count, gs_cl_copied(b, 1), 1);
    for (size_t i = 0; i < count; i += some) {
        const size_t n = count - i < some ? count - i : some;
        gs_mem part = gs_cl_sample(b, i, 1);
        GS_TRY(gs_cl_rounded(d, 1, &(gs_cl_operand){&part, n, false}));
        GS_TRY(run(d, file, kernel, gs_cl_sample(out, i, 1), gs_cl_sample(a, i, 1), part, n, number));
    }
    return GS_OK;
}

/* Besides dy, backward reads either y, unchanged, or x, rounded. */
#define RUN_y(d, dx, name, ...) run(d, GS_CL_AS(d, dx, name), __VA_ARGS__)
#define RUN_x(d, dx, name, ...) run_rounded(d, GS_CL_FLOW(d, dx, name), __VA_ARGS__)

#define WRAP_BOTH(name, forward, backward, reads, number_at, ...)                                            \
    gs_status gs_cl_##forward(gs_device *d, gs_mem y, gs_mem x, size_t count __VA_ARGS__) {                  \
        return run(d, GS_CL_AS(d, y, #name), #forward, y, x, GS_NONE, count, number_at);                     \
    }                                                                                                        \
    gs_status gs_cl_##backward(gs_device *d, gs_mem dx, gs_mem dy, gs_mem reads, size_t count __VA_ARGS__) { \
        return RUN_##reads(d, dx, #name, #backward, dx, dy, reads, count, number_at);                        \
    }
#define WRAP(of, name, forward, backward, reads, ...) WRAP_BOTH(name, forward, backward, reads, NULL, )
#define WRAP_WITH(of, name, forward, backward, reads, number, ...)                                           \
    WRAP_BOTH(name, forward, backward, reads, &number, , float number)
GS_ELEMENT_WISE(WRAP, WRAP_WITH, )
