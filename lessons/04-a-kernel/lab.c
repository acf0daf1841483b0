/* Given: starts the kernels of lab.cl, by the library's own machinery (cl/cl.h). You write lab.cl. */
#include "tasks.h"

#include "cl/cl.h"

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

/* ---- for the checks ---- */

/* The arrays on the device, and the product that they belong to. */
typedef struct product {
    gs_device *device;
    const lab_multiplication *of;
    gs_mem c, a, b;
} product;

static gs_status put(gs_device *d, const float *from, size_t count, gs_mem *to) {
    GS_TRY(d->ops->alloc(d, count * sizeof(float), to));
    return d->ops->write(d, *to, from, count * sizeof(float));
}

static gs_status multiply_on(product *p) {
    const lab_multiplication *x = p->of;
    const size_t count = x->m * x->n + x->guard;
    GS_TRY(put(p->device, x->c, count, &p->c));
    GS_TRY(put(p->device, x->a, x->m * x->k + x->guard, &p->a));
    GS_TRY(put(p->device, x->b, x->k * x->n + x->guard, &p->b));
    GS_TRY(lab_product(p->device, x->rung, p->c, p->a, p->b, x->m, x->n, x->k));
    return p->device->ops->read(p->device, x->c, p->c, count * sizeof(float));
}

static gs_status multiply(void *context) {
    static gs_device *device; /* stays open, because opening takes longer than most products */
    product p = {.of = context};
    if (!device) {
        gs_cl_choose_settings(true);
        GS_TRY(gs_device_open("cl", 0, &device));
    }
    p.device = device;
    gs_status status = multiply_on(&p);
    device->ops->free(device, p.c);
    device->ops->free(device, p.a);
    device->ops->free(device, p.b);
    return status;
}

gs_status lab_multiply(lab_multiplication *x) {
    return x->counts ? lab_count_loads(multiply, x, lab_rungs[x->rung].kernel, &x->loads) : multiply(x);
}
