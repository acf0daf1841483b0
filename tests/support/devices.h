/* The devices that the tests run on. */
#pragma once

#include "backend.h"

enum { GS_TEST_MAX_DEVICES = 8 };

/* The devices named by the environment variable GRADSUM_TEST_DEVICES (such as "cpu" or "cpu,cl:1.0"), by default
 * "cpu,cl". They stay open until the last test has run; a device that cannot be opened fails the test. NULL ends the
 * list. *count receives their number; count may be NULL. */
gs_device *const *gs_test_devices(int *count);

#define FOR_EACH_DEVICE(d)                                                                                   \
    for (gs_device *const *d##_at = gs_test_devices(NULL), *d; (d = *d##_at) != NULL; d##_at++)

/* The plain loops (cpu/plain/plain.h) as a device, which the test owns. */
gs_device *gs_test_open_plain(void);

/* main calls this after the last test. atexit() would be too late: an OpenCL library may be shutting down by then. */
int gs_test_close_devices(void **state);

/* The 16-bit precisions. Runs `test` with both of them on each device that stores such numbers; skips the test if there
 * is no such device. */
extern const gs_precision gs_test_16_bits[2];
void gs_test_on_each_with_16_bits(void (*test)(gs_device *, gs_precision));

/* A teardown that resets all devices to f32, also after a failed test. */
int gs_test_to_f32(void **state);

/* A GPU may round a division differently: OpenCL 1.2 allows an error of 2.5 ulp. */
bool gs_test_divides_exactly(const gs_device *);

/* Whether there is an OpenCL device. gs_test_need_opencl skips the test if there is none. */
bool gs_test_has_opencl(void);
void gs_test_need_opencl(void);

/* True if the environment variable GRADSUM_TEST_SMALL asks for tiny shapes, because a slow checker runs the tests. */
bool gs_test_small(void);
void gs_test_need_whole(void); /* skips the test if so */
