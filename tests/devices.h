/* The devices that the tests run on. */
#ifndef GS_TESTS_DEVICES_H
#define GS_TESTS_DEVICES_H

#include "backend.h"

enum { GS_TEST_MAX_DEVICES = 8 };

/* The devices named by the environment variable GRADSUM_TEST_DEVICES (such as "cpu" or "cpu,cl:1.0"), by default
 * "cpu,cl", open until the last test has run; a device that cannot be opened fails the test. *count: how many. */
gs_device *const *gs_test_devices(int *count);

/* For main, after the last test. Not at exit, when an OpenCL library may have begun to end itself. */
int gs_test_close_devices(void **state);

/* True if the environment variable GRADSUM_TEST_SMALL asks for tiny shapes: under a slow checker. */
bool gs_test_small(void);

#endif
