/* Tests that are written for one device and run on all devices. */
#pragma once

#include "tests/support/devices.h"
#include "tests/support/test.h"

static inline void gs_test_on_every_device(void (*test)(gs_device *)) {
    FOR_EACH_DEVICE (d) test(d);
}

#define ON_EVERY_DEVICE(name)                                                                                \
    TEST(name) {                                                                                             \
        gs_test_on_every_device(name##_on);                                                                  \
    }

/* A device, and memory on it; the test owns both. */
gs_device *gs_test_device(const char *name, int threads);
gs_mem gs_test_alloc(gs_device *, size_t bytes);
gs_mem gs_test_put(gs_device *, const void *data, size_t bytes);
gs_mem gs_test_new_mem(gs_device *, const void *data, size_t count); /* 32-bit values; data may be NULL */

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
