#include "cl/cl.h"

/* images.cl has the kernels too, for CPUs, and is compiled by then: pooling comes after a convolution. */
static const char *program(gs_device *d) {
    return gs_cl_of(d)->tiles.gpu ? "max_pool2d" : "images";
}

gs_status gs_cl_max_pool2d_forward(gs_device *d, gs_mem y, gs_mem index, gs_mem x, size_t n,
                                   const gs_pool2d_sizes *s) {
    size_t planes = n * (size_t)s->c;
    return GS_CL_RUN(d, program(d), "max_pool2d_forward", gs_cl_planes(d, planes, (size_t)s->out_h),
                     GS_ARG(y), GS_ARG(index), GS_ARG(x), GS_ARG(planes), GS_ARG_STRUCT(*s));
}

gs_status gs_cl_max_pool2d_backward(gs_device *d, gs_mem dx, gs_mem dy, gs_mem index, size_t n,
                                    const gs_pool2d_sizes *s) {
    size_t planes = n * (size_t)s->c;
    return GS_CL_RUN(d, program(d), "max_pool2d_backward", gs_cl_planes(d, planes, (size_t)s->in_h),
                     GS_ARG(dx), GS_ARG(dy), GS_ARG(index), GS_ARG(planes), GS_ARG_STRUCT(*s));
}
