/* Activations: each has its kernels in a file of its name, such as relu.cl. */
#include "cl/round16.h"

#define FORWARD(name, FILE)                                                                                  \
    gs_status gs_cl_##name(gs_device *d, gs_mem y, gs_mem x, size_t count) {                                 \
        return GS_CL_RUN(d, GS_CL_AS(d, y, FILE), #name, gs_cl_elements(d, count), GS_ARG(y), GS_ARG(x),     \
                         GS_ARG(count));                                                                     \
    }
#define BACKWARD_OF_Y(name, FILE)                                                                            \
    gs_status gs_cl_##name(gs_device *d, gs_mem dx, gs_mem dy, gs_mem y, size_t count) {                     \
        return GS_CL_RUN(d, GS_CL_AS(d, dx, FILE), #name, gs_cl_elements(d, count), GS_ARG(dx), GS_ARG(dy),  \
                         GS_ARG(y), GS_ARG(count));                                                          \
    }
#define BACKWARD_OF_X(name, FILE)                                                                            \
    gs_status gs_cl_##name(gs_device *d, gs_mem dx, gs_mem dy, gs_mem x, size_t count) {                     \
        return gs_cl_from_rounded(d, GS_CL_FLOW(d, dx, FILE), #name, dx, dy, x, count);                      \
    }

FORWARD(tanh_forward, "tanh")
BACKWARD_OF_Y(tanh_backward, "tanh")
FORWARD(sigmoid_forward, "sigmoid")
BACKWARD_OF_Y(sigmoid_backward, "sigmoid")
FORWARD(silu_forward, "silu")
BACKWARD_OF_X(silu_backward, "silu")
FORWARD(gelu_forward, "gelu")
BACKWARD_OF_X(gelu_backward, "gelu")
FORWARD(gelu_tanh_forward, "gelu_tanh")
BACKWARD_OF_X(gelu_tanh_backward, "gelu_tanh")
FORWARD(relu_forward, "relu")

gs_status gs_cl_relu_backward(gs_device *d, gs_mem dx, gs_mem dy, gs_mem y, size_t count) {
    if (y.half) return gs_cl_pass(d, dx, dy, y, count);
    return GS_CL_RUN(d, "relu", "relu_backward", gs_cl_elements(d, count), GS_ARG(dx), GS_ARG(dy), GS_ARG(y),
                     GS_ARG(count));
}
