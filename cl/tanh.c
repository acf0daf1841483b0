#include "cl/round16.h"

gs_status gs_cl_tanh_forward(gs_device *d, gs_mem y, gs_mem x, size_t count) {
    return GS_CL_RUN(d, GS_CL_AS(d, y, "tanh"), "tanh_forward", gs_cl_elements(d, count), GS_ARG(y),
                     GS_ARG(x), GS_ARG(count));
}

gs_status gs_cl_tanh_backward(gs_device *d, gs_mem dx, gs_mem dy, gs_mem y, size_t count) {
    return GS_CL_RUN(d, GS_CL_AS(d, dx, "tanh"), "tanh_backward", gs_cl_elements(d, count), GS_ARG(dx),
                     GS_ARG(dy), GS_ARG(y), GS_ARG(count));
}
