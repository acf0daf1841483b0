/* The checks of lesson 4. All numbers are small integers, so that every order of summation gives the same floats: what
 * differs from the plain loop below is wrong.
 *
 * Behind A and B lie NaN, and behind C numbers that must stay: who goes beyond the end is seen. Under Oclgrind, which
 * sees it directly, and reads as well, the buffers end where the matrices do; and there the loads are counted, since
 * they, and not the result, are what the rungs differ in. */
#include <math.h>
#include <stdlib.h>
#include "lab.h"
#include "tasks.h"

enum { GUARD = 64 /* floats behind each matrix */ };
static const float UNTOUCHED = -12345;

typedef struct sizes {
    size_t m, n, k;
} sizes;

/* The smallest first. */
static const sizes all[] = {
    {1, 1, 1},    {1, 1, 2},    {1, 2, 1},   {2, 1, 1},   {2, 3, 5},    {4, 4, 4},    {5, 4, 3},
    {4, 5, 3},    {8, 16, 1},   {9, 16, 3},  {8, 17, 3},  {16, 16, 16}, {17, 16, 16}, {16, 17, 16},
    {16, 16, 17}, {13, 31, 29}, {1, 67, 33}, {67, 1, 33}, {33, 47, 19}, {64, 64, 64}, {61, 127, 101},
};
/* For the simulator: less than a tile; two tiles each way, all of them ragged. */
static const sizes few[] = {{1, 1, 1}, {2, 3, 5}, {17, 18, 19}};

typedef struct product {
    gs_device *device;
    gs_mem c, a, b;
    float *host_c, *host_a, *host_b;
} product;

static float element(size_t i, size_t seed) {
    return (float)((i * 2654435761u + seed * 40503u) >> 7 & 7) - 3;
}

static gs_status put(product *p, const float *from, size_t count, gs_mem *to) {
    GS_TRY(p->device->ops->alloc(p->device, count * sizeof(float), to));
    return p->device->ops->write(p->device, *to, from, count * sizeof(float));
}

/* `count` floats, then `guard` that are `behind`. */
static float *floats(size_t count, size_t guard, float behind) {
    float *x = malloc((count + guard) * sizeof *x);
    if (!x) gs_bug("no memory");
    for (size_t i = 0; i < count + guard; i++) x[i] = behind;
    return x;
}

static gs_status judge(const product *p, const char *kernel, const sizes *s, size_t guard) {
    for (size_t i = 0; i < s->m; i++)
        for (size_t j = 0; j < s->n; j++) {
            float sum = 0, got = p->host_c[i * s->n + j];
            for (size_t t = 0; t < s->k; t++) sum += p->host_a[i * s->k + t] * p->host_b[t * s->n + j];
            if (got == sum) continue;
            const char *why = got == UNTOUCHED ? ": it was not written"
                              : isnan(got)     ? ": something from beyond the end of A or B is in it"
                                               : "";
            return gs_fail(GS_E_SHAPE,
                           "%s: m %zu, n %zu, k %zu: element (row %zu, column %zu) of C is %g, wanted %g%s",
                           kernel, s->m, s->n, s->k, i, j, (double)got, (double)sum, why);
        }
    for (size_t i = 0; i < guard; i++)
        LAB_CHECK(p->host_c[s->m * s->n + i] == UNTOUCHED,
                  "%s: m %zu, n %zu, k %zu: wrote %g to c[%zu], beyond the end of C, whose last is c[%zu]",
                  kernel, s->m, s->n, s->k, (double)p->host_c[s->m * s->n + i], s->m * s->n + i,
                  s->m * s->n - 1);
    return GS_OK;
}

static gs_status multiply(product *p, int rung, const sizes *s) {
    const size_t guard = lab_small() ? 0 : GUARD, count = s->m * s->n + guard;
    p->host_c = floats(s->m * s->n, guard, UNTOUCHED);
    p->host_a = floats(s->m * s->k, guard, NAN);
    p->host_b = floats(s->k * s->n, guard, NAN);
    for (size_t i = 0; i < s->m * s->k; i++) p->host_a[i] = element(i, 1);
    for (size_t i = 0; i < s->k * s->n; i++) p->host_b[i] = element(i, 2);
    GS_TRY(put(p, p->host_c, count, &p->c));
    GS_TRY(put(p, p->host_a, s->m * s->k + guard, &p->a));
    GS_TRY(put(p, p->host_b, s->k * s->n + guard, &p->b));
    GS_TRY(lab_product(p->device, rung, p->c, p->a, p->b, s->m, s->n, s->k));
    GS_TRY(p->device->ops->read(p->device, p->host_c, p->c, count * sizeof(float)));
    return judge(p, lab_rungs[rung].kernel, s, guard);
}

static gs_status check_sizes(gs_device *d, int rung, const sizes *s) {
    product p = {.device = d};
    gs_status status = multiply(&p, rung, s);
    d->ops->free(d, p.c);
    d->ops->free(d, p.a);
    d->ops->free(d, p.b);
    free(p.host_c);
    free(p.host_a);
    free(p.host_b);
    return status;
}

/* ---- loads ---- */

/* What a rung loads for its products, as the README derives it. 4.2 is about global memory, those after it about both.
 * 4.1 is the first rung: it has nothing to save. */
typedef struct theory {
    bool global_only;
    size_t loads, products;
} theory;

static const theory theories[LAB_RUNGS] = {
    {0},
    {true, 2, 16},   /* one of A and one of B, for 16 values of t */
    {false, 8, 16},  /* 4 + 4, for 4 x 4 elements */
    {false, 9, 128}, /* 8 + one vector, for 8 x 16 */
};

typedef struct counted {
    gs_device *device;
    int rung;
    sizes s;
} counted;

static gs_status run_counted(void *context) {
    const counted *c = context;
    return check_sizes(c->device, c->rung, &c->s);
}

static gs_status check_loads(gs_device *d, int rung) {
    counted c = {d, rung, {32, 32, 32}}; /* whole tiles of each kind: no edge that costs more */
    const theory *t = &theories[rung];
    const size_t products = c.s.m * c.s.n * c.s.k, wanted = products / t->products * t->loads;
    lab_loads l;
    GS_TRY(lab_count_loads(run_counted, &c, lab_rungs[rung].kernel, &l));
    const size_t got = l.global + (t->global_only ? 0 : l.local);
    LAB_CHECK(got <= wanted + wanted / 4,
              "%s: m %zu, n %zu, k %zu: %zu loads from %s for %zu products, wanted %zu for every %zu: %zu, "
              "or up to a quarter more",
              lab_rungs[rung].kernel, c.s.m, c.s.n, c.s.k, got,
              t->global_only ? "global memory" : "global and local memory", products, t->loads, t->products,
              wanted);
    return GS_OK;
}

static gs_status check_rung(int rung) {
    const sizes *s = lab_small() ? few : all;
    const size_t count = lab_small() ? sizeof few / sizeof *few : sizeof all / sizeof *all;
    gs_device *d;
    GS_TRY(gs_device_open("cl", 0, &d));
    gs_status status = GS_OK;
    for (size_t i = 0; i < count && status == GS_OK; i++) status = check_sizes(d, rung, &s[i]);
    if (status == GS_OK && lab_small() && rung > 0) status = check_loads(d, rung);
    gs_device_close(d);
    return status;
}

static gs_status check_element(void) {
    return check_rung(0);
}

static gs_status check_local(void) {
    return check_rung(1);
}

static gs_status check_register(void) {
    return check_rung(2);
}

static gs_status check_vector(void) {
    return check_rung(3);
}

const lab_task lab_tasks[] = {
    {"4.1", "one element for each work-item", 2, check_element,
     "which work-items have no element of C? And by how much does the address in B grow when t grows by 1?"},
    {"4.2", "tiles of 16 x 16 through local memory", 3, check_local,
     "two barriers a round, which all work-items reach: one that returns before them spoils the others. What "
     "must be in a tile where A or B has ended?"},
    {"4.3", "4 x 4 elements in registers", 2, check_register,
     "do all sums begin at 0? For each t load 4 + 4 numbers first, then use each 4 times. Draw the last "
     "work-item of a 5 x 5 matrix: what does it load, and what does it store?"},
    {"4.4", "8 rows of float16, with a ragged right edge", 3, check_vector,
     "do all sums begin at 0? vload16 and vstore16 touch 16 floats, always: how many are left in the row? "
     "And how many of the 8 rows are there?"},
    {0},
};
