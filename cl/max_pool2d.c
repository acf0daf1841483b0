#include "cl/round16.h"

/* On a CPU a task is a group of planes: PER_CORE tasks per core, but at least LEAST elements in each, about a
 * microsecond of work. */
static size_t group_of(gs_device *d, size_t planes, const gs_pool2d_sizes *s) {
    enum { PER_CORE = 16, LEAST = 1 << 12 };
    const size_t even = gs_cl_parts(planes, PER_CORE * gs_cl_of(d)->units),
                 least = gs_cl_parts(LEAST, (size_t)s->in_h * (size_t)s->in_w);
    return even > least ? even : least;
}

/* Both kernels take the same parameters. On a GPU, work-items share the `rows` rows of each plane. */
static gs_status run(gs_device *d, const char *name, gs_mem a, gs_mem b, gs_mem c, size_t n, int rows,
                     const gs_pool2d_sizes *s) {
    const size_t planes = n * (size_t)s->c, group = group_of(d, planes, s),
                 tasks = gs_cl_parts(planes, group);
    const char *file = GS_CL_AS(d, a, "max_pool2d");
    if (gs_cl_of(d)->tiles.gpu)
        return GS_CL_RUN(d, file, name, gs_cl_planes(d, planes, (size_t)rows), a, b, c, planes,
                         GS_ARG_STRUCT(*s));
    return GS_CL_RUN_TASKS(d, file, name, gs_cl_takers(d, tasks), tasks, a, b, c, planes, group,
                           GS_ARG_STRUCT(*s));
}

gs_status gs_cl_max_pool2d_forward(gs_device *d, gs_mem y, gs_mem index, gs_mem x, size_t n,
                                   const gs_pool2d_sizes *s) {
    return run(d, "max_pool2d_forward", y, index, x, n, s->out_h, s);
}

gs_status gs_cl_max_pool2d_backward(gs_device *d, gs_mem dx, gs_mem dy, gs_mem index, size_t n,
                                    const gs_pool2d_sizes *s) {
    return run(d, "max_pool2d_backward", dx, dy, index, n, s->in_h, s);
}
