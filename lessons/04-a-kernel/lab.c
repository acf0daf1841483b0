/* Given: starts the kernels of lab.cl, by the library's own machinery (cl/cl.h). You write lab.cl. */
#include "cl/cl.h"
#include "tasks.h"

const lab_rung lab_rungs[LAB_RUNGS] = {
    {"lab-4.1", "product_element", 1, 1, {16, 16}, 0},
    {"lab-4.2", "product_local", 1, 1, {16, 16}, 0},
    {"lab-4.3", "product_register", 4, 4, {8, 8}, 0},
    {"lab-4.4", "product_vector", 8, 16, {1, 1}, 1},
};

gs_status lab_product(gs_device *d, int rung, gs_mem c, gs_mem a, gs_mem b, size_t m, size_t n, size_t k) {
    const lab_rung *r = &lab_rungs[rung];
    const size_t items[2] = {r->rows_along ? gs_cl_parts(m, r->rows) : gs_cl_parts(n, r->columns),
                             r->rows_along ? gs_cl_parts(n, r->columns) : gs_cl_parts(m, r->rows)};
    const gs_cl_grid grid = {{gs_cl_parts(items[0], r->group[0]), gs_cl_parts(items[1], r->group[1]), 1},
                             {r->group[0], r->group[1], 1}};
    return GS_CL_RUN(d, r->file, r->kernel, grid, GS_ARG_BUFFER(c), GS_ARG_BUFFER(a), GS_ARG_BUFFER(b),
                     GS_ARG(m), GS_ARG(n), GS_ARG(k));
}
