#include "cl/round16.h"

gs_status gs_cl_gelu_forward(gs_device *d, gs_mem y, gs_mem x, size_t count) {
    return GS_CL_RUN(d, GS_CL_AS(d, y, "gelu"), "gelu_forward", gs_cl_elements(d, count), GS_ARG(y),
                     GS_ARG(x), GS_ARG(count));
}

gs_status gs_cl_gelu_backward(gs_device *d, gs_mem dx, gs_mem dy, gs_mem x, size_t count) {
    return gs_cl_from_rounded(d, GS_CL_FLOW(d, dx, "gelu"), "gelu_backward", dx, dy, x, count);
}
