/* The schemes: each gives the sum, on every rank the same bits, over every transport. */
#include "tests/ranks.h"

#include <math.h>

static const gs_test_layout layouts[] = {
    {"1 thread", 0, {1}},
    {"2 threads", 0, {2}},
    {"4 threads", 0, {4}},
    {"3 processes", 3, {1, 1, 1}},
    {"2 processes of 2 threads", 2, {2, 2}},
    {"processes of 1 and 3 threads", 2, {1, 3}},
};
enum { LAYOUTS = sizeof layouts / sizeof *layouts, MOST = 70001 };

static float number(int rank, size_t i) {
    return sinf((float)(i % 1009) + 0.37f * (float)rank) * (float)(1 + i % 13);
}

/* Sums by each scheme; they agree within rounding, and each gives the bits of rank 0 to all. */
static gs_status schemes_sum(gs_comm *c, void *context) {
    const gs_test_layout *layout = context;
    static const size_t counts[] = {0, 1, 7, 1000, MOST};
    float *x = gs_test_scratch(MOST * sizeof *x), *first = gs_test_scratch(MOST * sizeof *x);
    for (size_t n = 0; n < sizeof counts / sizeof *counts; n++) {
        size_t count = counts[n], bytes = count * sizeof *x;
        for (int s = 0; gs_sync_schemes()[s]; s++) {
            const gs_sync_scheme *scheme = gs_sync_schemes()[s];
            for (size_t i = 0; i < count; i++) x[i] = number(c->rank, i);
            GS_TRY(scheme->sum(c, x, count));
            for (size_t i = 0; i < count; i++) {
                double sum = 0, size = 0;
                for (int r = 0; r < c->size; r++) {
                    sum += number(r, i);
                    size += fabsf(number(r, i));
                }
                RANK_CHECK(fabs(x[i] - sum) <= 1e-6 * size, "%s: sum %zu of %zu is %.9g, wanted %.9g",
                           scheme->name, i, count, x[i], sum);
            }
            /* within one process both add in the order of the ranks */
            if (s > 0 && layout->processes == 0)
                RANK_CHECK(memcmp(x, first, bytes) == 0, "%s gives other bits than %s", scheme->name,
                           gs_sync_schemes()[0]->name);
            memcpy(first, x, bytes);
            GS_TRY(c->ops->broadcast(c, x, count, GS_F32, 0));
            RANK_CHECK(memcmp(x, first, bytes) == 0, "%s: other bits than on rank 0", scheme->name);
        }
    }
    return GS_OK;
}

static void every_scheme_gives_the_sum(void **state) {
    (void)state;
    for (int i = 0; i < LAYOUTS; i++) gs_test_ranks_ok(&layouts[i], schemes_sum, (void *)&layouts[i]);
}

static void schemes_are_found_by_name(void **state) {
    (void)state;
    const gs_sync_scheme *scheme;
    assert_ok(gs_sync_find("allreduce", &scheme));
    assert_ptr_equal(scheme, &gs_sync_allreduce);
    assert_ok(gs_sync_find("ps", &scheme));
    assert_ptr_equal(scheme, &gs_sync_ps);
    assert_fails(GS_E_USAGE, "'ring'; there are: allreduce, ps", gs_sync_find("ring", &scheme));
    assert_fails(GS_E_USAGE, "''", gs_sync_find("", &scheme));
    for (int s = 0; gs_sync_schemes()[s]; s++) assert_true(strlen(gs_sync_schemes()[s]->what) > 20);
}

/* ---- gs_sync_sum: the memory of a device ---- */

typedef struct fake_memory {
    float data[8];
    int maps, unmaps;
} fake_memory;

static gs_status fake_map(gs_device *d, gs_mem m, size_t bytes, void **host) {
    fake_memory *memory = d->state;
    RANK_CHECK(m.at + bytes / sizeof(float) <= 8, "%zu bytes at %zu are mapped, of 8 floats", bytes, m.at);
    memory->maps++;
    *host = memory->data + m.at;
    return GS_OK;
}

static gs_status fake_unmap(gs_device *d, gs_mem m, void *host) {
    fake_memory *memory = d->state;
    RANK_CHECK(host == memory->data + m.at, "not what was mapped");
    memory->unmaps++;
    return gs_fail(GS_E_OPENCL, "unmapping failed too");
}

static gs_status fake_unmap_ok(gs_device *d, gs_mem m, void *host) {
    fake_unmap(d, m, host);
    return GS_OK;
}

static gs_status sum_on_device(gs_comm *c, void *context) {
    (void)context;
    static const gs_backend ops = {.map = fake_map, .unmap = fake_unmap_ok};
    fake_memory memory = {.data = {9, 1, 2, 3, 4, 9, 9, 9}};
    gs_device device = {.ops = &ops, .state = &memory};
    GS_TRY(gs_sync_sum(&gs_sync_allreduce, c, &device, gs_at(GS_NONE, 1), 4));
    float n = (float)c->size;
    const float wanted[8] = {9, n, 2 * n, 3 * n, 4 * n, 9, 9, 9};
    for (int i = 0; i < 8; i++)
        RANK_CHECK(memory.data[i] == wanted[i], "float %d is %g, wanted %g", i, memory.data[i], wanted[i]);
    int times = c->size > 1;
    RANK_CHECK(memory.maps == times && memory.unmaps == times, "mapped %d times, unmapped %d times, of %d",
               memory.maps, memory.unmaps, times);
    return GS_OK;
}

static void device_memory_is_mapped_and_summed(void **state) {
    (void)state;
    gs_test_ranks_ok(&(gs_test_layout){"1 thread", 0, {1}}, sum_on_device, NULL);
    gs_test_ranks_ok(&(gs_test_layout){"3 threads", 0, {3}}, sum_on_device, NULL);
}

static gs_status failing_sum(gs_comm *c, float *data, size_t count) {
    (void)c, (void)data, (void)count;
    return gs_fail(GS_E_PEER, "rank 1 was lost");
}

/* What is mapped is unmapped again when the sum fails, and the message is the sum's. */
static void a_failed_sum_is_unmapped(void **state) {
    (void)state;
    static const gs_backend ops = {.map = fake_map, .unmap = fake_unmap};
    static const gs_sync_scheme failing = {.name = "failing", .sum = failing_sum};
    fake_memory memory = {0};
    gs_device device = {.ops = &ops, .state = &memory};
    gs_comm *c[2];
    assert_ok(gs_comm_threads_create(2, 1, c));
    assert_fails(GS_E_PEER, "rank 1 was lost", gs_sync_sum(&failing, c[0], &device, GS_NONE, 8));
    assert_int_equal(memory.maps, 1);
    assert_int_equal(memory.unmaps, 1);
    gs_comm_free(c[0]);
    gs_comm_free(c[1]);
}

GS_TESTS(sync, cmocka_unit_test(every_scheme_gives_the_sum), cmocka_unit_test(schemes_are_found_by_name),
         cmocka_unit_test(device_memory_is_mapped_and_summed), cmocka_unit_test(a_failed_sum_is_unmapped))
