#include "tests/devices.h"

#include "tests/test.h"

static gs_device *devices[GS_TEST_MAX_DEVICES];
static int device_count;

static void close_devices(void) {
    for (int i = 0; i < device_count; i++) gs_device_close(devices[i]);
}

gs_device *const *gs_test_devices(int *count) {
    if (device_count == 0) {
        const char *names = getenv("GRADSUM_TEST_DEVICES");
        char list[256];
        snprintf(list, sizeof list, "%s", names && *names ? names : "cpu,cl");
        for (char *name = strtok(list, ","); name; name = strtok(NULL, ",")) {
            assert_int_not_equal(device_count, GS_TEST_MAX_DEVICES);
            assert_ok(gs_device_open(name, 0, &devices[device_count]));
            if (device_count++ == 0) atexit(close_devices);
        }
    }
    *count = device_count;
    return devices;
}

bool gs_test_small(void) {
    const char *small = getenv("GRADSUM_TEST_SMALL");
    return small && strcmp(small, "1") == 0;
}
