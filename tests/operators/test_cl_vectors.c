/* A compiler that combines work-items into vectors does not touch kernels whose work-items already use vectors
 * (GS_OF_VECTORS in common.clh). Intel's compiler logs what it did. */
#include "cl/cl.h"
#include "tests/support/devices.h"
#include "tests/support/test.h"

/* Compiles cl/FILE.cl and returns the build log, which the caller frees. */
static char *build_log(gs_device *d, const char *file) {
    const gs_cl *cl = d->state;
    cl_program program;
    size_t size = 0;
    assert_ok(gs_cl_program(d, file, &program));
    assert_int_equal(clGetProgramBuildInfo(program, cl->id, CL_PROGRAM_BUILD_LOG, 0, NULL, &size),
                     CL_SUCCESS);
    char *log = calloc(1, size + 1);
    assert_non_null(log);
    assert_int_equal(clGetProgramBuildInfo(program, cl->id, CL_PROGRAM_BUILD_LOG, size, log, NULL),
                     CL_SUCCESS);
    return log;
}

#define UPDATE(name) {NULL, #name}, /* sgd_update is in sgd.cl */

TEST(vectors_stay_as_they_are) {
    gs_test_need_opencl();
    static const struct {
        const char *file, *kernel;
    } kernels[] = {{"data", "bytes_to_float"},
                   {"gemm", "gemm_broadcast"},
                   {"linear", "linear_db"},
                   {"memory", "fill"},
                   {"relu", "relu_forward"},
                   {"relu", "relu_backward"},
                   {"tanh", "tanh_forward"},
                   {"conv2d_rows", "conv2d_rows_forward"},
                   {"conv2d_rows", "conv2d_rows_backward"},
                   {"conv2d_rows", "conv2d_weights_sum"},
                   {"winograd", "winograd_forward"},
                   {"winograd", "winograd_backward"},
                   {"max_pool2d", "max_pool2d_forward"},
                   {"peak", "fma_loop"},
                   {"peak", "triad"},
                   GS_UPDATES(UPDATE)};
    gs_device *d;
    char platform[100] = "";
    setenv("GRADSUM_CACHE", "off", 1); /* a cached program has no log */
    assert_ok(gs_device_open("cl", 0, &d));
    gs_cl *cl = d->state;
    cl_platform_id id;
    clGetDeviceInfo(cl->id, CL_DEVICE_PLATFORM, sizeof id, &id, NULL);
    clGetPlatformInfo(id, CL_PLATFORM_NAME, sizeof platform, platform, NULL);
    const bool says_it = strcmp(platform, "Intel(R) OpenCL") == 0 && !cl->tiles.gpu;
    for (size_t i = 0; says_it && i < sizeof kernels / sizeof *kernels; i++) {
        const char *kernel = kernels[i].kernel, *file = kernels[i].file;
        if (!file) file = gs_test_format("%.*s", (int)strcspn(kernel, "_"), kernel);
        char *log = build_log(d, file), said[100];
        snprintf(said, sizeof said, "Kernel \"%s\" was not vectorized", kernel);
        if (!strstr(log, said)) fail_msg("'%s' is not in the log of %s.cl:\n%s", said, file, log);
        free(log);
    }
    gs_device_close(d);
    unsetenv("GRADSUM_CACHE");
    if (!says_it) skip_because("the compiler of %s does not log what it did", platform);
}
