#include "cl/round16.h"

gs_status gs_cl_avg_pool2d_forward(gs_device *d, gs_mem y, gs_mem x, size_t n, const gs_pool2d_sizes *s) {
    size_t planes = n * (size_t)s->c;
    return GS_CL_RUN(d, GS_CL_AS(d, y, "avg_pool2d"), "avg_pool2d_forward",
                     gs_cl_planes(d, planes, (size_t)s->out_h), y, x, planes, GS_ARG_STRUCT(*s));
}

gs_status gs_cl_avg_pool2d_backward(gs_device *d, gs_mem dx, gs_mem dy, size_t n, const gs_pool2d_sizes *s) {
    size_t planes = n * (size_t)s->c;
    return GS_CL_RUN(d, GS_CL_AS(d, dx, "avg_pool2d"), "avg_pool2d_backward",
                     gs_cl_planes(d, planes, (size_t)s->in_h), dx, dy, planes, GS_ARG_STRUCT(*s));
}
