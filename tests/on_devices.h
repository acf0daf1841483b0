/* Tests of one operation, written for one device and run on every one. */
#pragma once

#include "tests/devices.h"
#include "tests/test.h"

/* Run a test on every device. */
static inline void gs_test_on_every_device(void (*test)(gs_device *)) {
    int count;
    gs_device *const *devices = gs_test_devices(&count);
    for (int d = 0; d < count; d++) test(devices[d]);
}

#define ON_EVERY_DEVICE(name)                                                                                \
    TEST(name) {                                                                                             \
        gs_test_on_every_device(name##_on);                                                                  \
    }

static inline gs_mem gs_test_new_mem(gs_device *d, const void *data, size_t count) {
    gs_mem m;
    assert_ok(d->ops->alloc(d, count * sizeof(float), &m));
    if (data) assert_ok(d->ops->write(d, m, data, count * sizeof(float)));
    return m;
}

static inline void gs_test_check_floats(gs_device *d, gs_mem m, const float *want, size_t count,
                                        const char *what) {
    float *got = malloc((count + 1) * sizeof *got);
    assert_non_null(got);
    assert_ok(d->ops->read(d, got, m, count * sizeof *got));
    for (size_t i = 0; i < count; i++)
        if (got[i] != want[i])
            fail_msg("%s on %s: element %zu is %.9g, wanted %.9g", what, d->name, i, (double)got[i],
                     (double)want[i]);
    free(got);
}
