#include "cl/cl.h"

/* bytes_to_float and one_hot: convert stored samples to tensors. */

_Static_assert(sizeof((gs_byte_scale *)0)->scale == sizeof(cl_float4), "the kernel takes each as a float4");

gs_status gs_cl_bytes_to_float(gs_device *d, gs_mem y, gs_mem bytes, const gs_byte_scale *s, size_t count) {
    const size_t plane = s->channels > 1 ? s->plane : count;
    return GS_CL_RUN(d, "data", "bytes_to_float", gs_cl_elements(d, count), y, GS_ARG_BUFFER(bytes),
                     GS_ARG_STRUCT(s->scale), GS_ARG_STRUCT(s->shift), plane, (size_t)s->channels, count);
}

gs_status gs_cl_one_hot(gs_device *d, gs_mem y, gs_mem labels, size_t n, int classes) {
    return GS_CL_RUN(d, "one_hot", "one_hot", gs_cl_items(n, 8), y, labels, n, classes);
}
