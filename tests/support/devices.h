/* The devices that the tests run on. */
#pragma once

#include "backend.h"

enum { GS_TEST_MAX_DEVICES = 8 };

/* The devices named by the environment variable GRADSUM_TEST_DEVICES (such as "cpu" or "cpu,cl:1.0"), by default
 * "cpu,cl", open until the last test has run; a device that cannot be opened fails the test. NULL ends them. *count:
 * how many; may be NULL. */
gs_device *const *gs_test_devices(int *count);

/* FOR_EACH_DEVICE(d) { ... } */
#define FOR_EACH_DEVICE(d)                                                                                   \
    for (gs_device *const *d##_at = gs_test_devices(NULL), *d; (d = *d##_at) != NULL; d##_at++)

/* The plain loops (cpu/plain/plain.h) as a device, which the test owns. */
gs_device *gs_test_open_plain(void);

/* For main, after the last test. Not at exit: an OpenCL library may then already be shutting down. */
int gs_test_close_devices(void **state);

/* The precisions of 16 bits. `test` with each of the two, on each device that stores such numbers; skips the test if
 * there is none. */
extern const gs_precision gs_test_16_bits[2];
void gs_test_on_each_with_16_bits(void (*test)(gs_device *, gs_precision));

/* A teardown: all devices compute in f32 again, also after a test that has failed. */
int gs_test_to_f32(void **state);

/* A GPU may round a division otherwise, which OpenCL 1.2 allows within 2.5 ulp. */
bool gs_test_divides_exactly(const gs_device *);

/* Is an OpenCL device among them? The second skips the test if not. */
bool gs_test_has_opencl(void);
void gs_test_need_opencl(void);

/* True if the environment variable GRADSUM_TEST_SMALL asks for tiny shapes: under a slow checker. */
bool gs_test_small(void);
void gs_test_need_whole(void); /* skips the test under such a checker */
