/* The checks of lesson 4. All numbers are small integers, so every order of summation gives the same floats: a result
 * that differs from the plain loop below is wrong.
 *
 * NaNs follow A and B, and numbers that must not change follow C, so accesses beyond the end show. Under Oclgrind,
 * which reports such accesses itself, the buffers end with the matrices. There the loads are counted too, because the
 * rungs differ in their loads, not in their results. */
#include <math.h>
#include <stdlib.h>
#include "lab.h"
#include "tasks.h"

enum { GUARD = 64 /* floats after each matrix */ };
static const float UNTOUCHED = -12345;

static const char *const kernels[LAB_RUNGS] = {"product_element", "product_local", "product_register",
                                               "product_vector"};

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

/* Drawn sizes follow. */
enum { DRAWN = 6, DRAWN_FEW = 1 };

/* Rows of lab_pick. */
enum { SIZES, ELEMENTS_A, ELEMENTS_B };

static size_t size_count(void) {
    return lab_small() ? sizeof few / sizeof *few + DRAWN_FEW : sizeof all / sizeof *all + DRAWN;
}

static sizes sizes_of(size_t i) {
    const size_t given = lab_small() ? sizeof few / sizeof *few : sizeof all / sizeof *all;
    const size_t most = lab_small() ? 20 : 90;
    if (i < given) return lab_small() ? few[i] : all[i];
    return (sizes){1 + lab_pick(SIZES, 3 * i, most), 1 + lab_pick(SIZES, 3 * i + 1, most),
                   1 + lab_pick(SIZES, 3 * i + 2, most)};
}

/* `count` floats and `guard` more, all equal to `behind`. */
static float *floats(size_t count, size_t guard, float behind) {
    float *x = malloc((count + guard) * sizeof *x);
    if (!x) gs_bug("no memory");
    for (size_t i = 0; i < count + guard; i++) x[i] = behind;
    return x;
}

static gs_status judge(const lab_multiplication *x) {
    const char *kernel = kernels[x->rung];
    for (size_t i = 0; i < x->m; i++)
        for (size_t j = 0; j < x->n; j++) {
            float sum = 0, got = x->c[i * x->n + j];
            for (size_t t = 0; t < x->k; t++) sum += x->a[i * x->k + t] * x->b[t * x->n + j];
            if (got == sum) continue;
            const char *why = got == UNTOUCHED ? ": it was not written"
                              : isnan(got)     ? ": it includes a number from beyond the end of A or B"
                                               : "";
            return gs_fail(GS_E_SHAPE,
                           "%s: m %zu, n %zu, k %zu: element (row %zu, column %zu) of C is %g, wanted %g%s",
                           kernel, x->m, x->n, x->k, i, j, (double)got, (double)sum, why);
        }
    for (size_t i = 0; i < x->guard; i++)
        LAB_CHECK(x->c[x->m * x->n + i] == UNTOUCHED,
                  "%s: m %zu, n %zu, k %zu: wrote %g to c[%zu], beyond the end of C, whose last is c[%zu]",
                  kernel, x->m, x->n, x->k, (double)x->c[x->m * x->n + i], x->m * x->n + i, x->m * x->n - 1);
    return GS_OK;
}

/* loads: NULL, or where to count them. */
static gs_status check_sizes(int rung, sizes s, lab_loads *loads) {
    const size_t guard = lab_small() ? 0 : GUARD;
    float *a = floats(s.m * s.k, guard, NAN), *b = floats(s.k * s.n, guard, NAN),
          *c = floats(s.m * s.n, guard, UNTOUCHED);
    for (size_t i = 0; i < s.m * s.k; i++) a[i] = (float)lab_pick(ELEMENTS_A, i, 8) - 3;
    for (size_t i = 0; i < s.k * s.n; i++) b[i] = (float)lab_pick(ELEMENTS_B, i, 8) - 3;
    lab_multiplication x = {
        .rung = rung, .m = s.m, .n = s.n, .k = s.k, .guard = guard, .c = c, .a = a, .b = b};
    x.counts = loads != NULL;
    gs_status status = lab_multiply(&x);
    if (status == GS_OK) status = judge(&x);
    if (loads) *loads = x.loads;
    free(a);
    free(b);
    free(c);
    return status;
}

/* ---- loads ---- */

/* The loads of a rung for its products, as the README derives them: 4.2 from global memory, later rungs from both. 4.1
 * has no limit. */
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

static gs_status check_loads(int rung) {
    const sizes s = {32, 32, 32}; /* whole tiles of each kind: no edge costs more */
    const theory *t = &theories[rung];
    const size_t products = s.m * s.n * s.k, wanted = products / t->products * t->loads;
    lab_loads l = {0};
    GS_TRY(check_sizes(rung, s, &l));
    const size_t got = l.global + (t->global_only ? 0 : l.local);
    lab_measure(t->global_only ? "loads from global memory" : "loads", got);
    LAB_CHECK(got <= wanted + wanted / 4,
              "%s: m %zu, n %zu, k %zu: %zu loads from %s for %zu products, wanted %zu for every %zu: %zu, "
              "or up to a quarter more",
              kernels[rung], s.m, s.n, s.k, got, t->global_only ? "global memory" : "global and local memory",
              products, t->loads, t->products, wanted);
    return GS_OK;
}

static gs_status check_rung(int rung) {
    for (size_t i = 0; i < size_count(); i++) GS_TRY(check_sizes(rung, sizes_of(i), NULL));
    return lab_small() && rung > 0 ? check_loads(rung) : GS_OK;
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

const char *const lab_may_call[] = {NULL};

const lab_task lab_tasks[] = {
    {"4.1", "one element for each work-item", 2, check_element,
     "which work-items have no element of C? By how much does the address in B grow when t grows by 1?"},
    {"4.2", "tiles of 16 x 16 through local memory", 3, check_local,
     "all work-items must reach two barriers in each round; none may return before them. What must a tile "
     "hold beyond the end of A or B?"},
    {"4.3", "4 x 4 elements in registers", 2, check_register,
     "do all sums start at 0? For each t load 4 + 4 numbers first, then use each 4 times. Draw the last "
     "work-item of a 5 x 5 matrix: what does it load, and what does it store?"},
    {"4.4", "8 rows of float16, with a ragged right edge", 3, check_vector,
     "do all sums start at 0? vload16 and vstore16 always access 16 floats: how many are left in the row? "
     "How many of the 8 rows exist?"},
    {0},
};
