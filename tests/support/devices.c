#include "tests/support/on_devices.h"

static gs_device *devices[GS_TEST_MAX_DEVICES + 1];
static int device_count;

int gs_test_close_devices(void **state) {
    (void)state;
    for (; device_count > 0; devices[device_count] = NULL) gs_device_close(devices[--device_count]);
    return 0;
}

gs_device *const *gs_test_devices(int *count) {
    if (device_count == 0) {
        const char *names = getenv("GRADSUM_TEST_DEVICES");
        char list[256];
        snprintf(list, sizeof list, "%s", names && *names ? names : "cpu,cl");
        for (char *name = strtok(list, ","); name; name = strtok(NULL, ",")) {
            assert_int_not_equal(device_count, GS_TEST_MAX_DEVICES);
            if (gs_device_open(name, 0, &devices[device_count]) == GS_OK) {
                device_count++;
                continue;
            }
            gs_test_close_devices(
                NULL); /* so that the next test fails too, rather than passing with fewer devices */
            fail_msg("%s (GRADSUM_TEST_DEVICES=cpu tests only the cpu)", gs_message());
        }
    }
    if (count) *count = device_count;
    return devices;
}

const gs_precision gs_test_16_bits[2] = {GS_PRECISION_BF16, GS_PRECISION_F16};

void gs_test_on_each_with_16_bits(void (*test)(gs_device *, gs_precision)) {
    int tried = 0;
    FOR_EACH_DEVICE (d)
        for (int p = 0; p < 2 && d->ops->narrow; p++, tried++) {
            d->precision = gs_test_16_bits[p];
            test(d, gs_test_16_bits[p]);
            d->precision = GS_PRECISION_F32;
        }
    if (tried == 0) gs_test_need_opencl();
}

int gs_test_to_f32(void **state) {
    (void)state;
    FOR_EACH_DEVICE (d) d->precision = GS_PRECISION_F32;
    return 0;
}

bool gs_test_has_opencl(void) {
    const char *names = getenv("GRADSUM_TEST_DEVICES");
    return !names || !*names || strstr(names, "cl") != NULL;
}

void gs_test_need_opencl(void) {
    if (gs_test_has_opencl()) return;
    skip_because("GRADSUM_TEST_DEVICES=%s contains no OpenCL device", getenv("GRADSUM_TEST_DEVICES"));
}

void gs_test_need_whole(void) {
    if (gs_test_small()) skip_because("too slow for GRADSUM_TEST_SMALL=1, under a slow checker");
}

bool gs_test_small(void) {
    const char *small = getenv("GRADSUM_TEST_SMALL");
    return small && strcmp(small, "1") == 0;
}

/* ---- owned by a test ---- */

static void close_device(void *device) {
    gs_device_close(device);
}

gs_device *gs_test_open_plain(void) {
    gs_device *plain;
    gs_backend_replace(gs_cpu_plain);
    gs_status status = gs_device_open("cpu", 1, &plain);
    gs_backend_replace(NULL);
    if (status != GS_OK) fail_msg("%s", gs_message());
    return gs_test_own(plain, close_device);
}

gs_device *gs_test_device(const char *name, int threads) {
    gs_device *d;
    assert_ok(gs_device_open(name, threads, &d));
    return gs_test_own(d, close_device);
}

typedef struct memory {
    gs_device *device;
    gs_mem at;
} memory;

static void free_memory(void *thing) {
    memory *m = thing;
    m->device->ops->free(m->device, m->at);
    free(m);
}

gs_mem gs_test_alloc(gs_device *d, size_t bytes) {
    memory *m = malloc(sizeof *m);
    if (!m) gs_bug("no memory for a test");
    m->device = d;
    assert_ok(d->ops->alloc(d, bytes, &m->at));
    gs_test_own(m, free_memory);
    return m->at;
}

gs_mem gs_test_put(gs_device *d, const void *data, size_t bytes) {
    const gs_mem m = gs_test_alloc(d, bytes);
    assert_ok(d->ops->write(d, m, data, bytes));
    return m;
}

gs_mem gs_test_new_mem(gs_device *d, const void *data, size_t count) {
    return data ? gs_test_put(d, data, count * sizeof(float)) : gs_test_alloc(d, count * sizeof(float));
}

bool gs_test_divides_exactly(const gs_device *d) {
    gs_device_info *all;
    const char *problem;
    int count, i = 0;
    assert_ok(gs_device_list(&all, &count, &problem));
    while (i < count && strncmp(all[i].name, d->name, strlen(d->name)) != 0)
        i++; /* "cl": the first of "cl:P.D" */
    const bool is_cpu = i < count && strcmp(all[i].kind, "cpu") == 0;
    free(all);
    return is_cpu;
}
