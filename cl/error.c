#include "cl/cl.h"

#include <stdarg.h>
#include <stdio.h>

/* OpenCL 1.2's error codes, except those of images, samplers and graphics, which are not used; and that of the loader
 * where no platform is installed. */
#define ERRORS(X)                                                                                            \
    X(CL_DEVICE_NOT_FOUND)                                                                                   \
    X(CL_DEVICE_NOT_AVAILABLE)                                                                               \
    X(CL_COMPILER_NOT_AVAILABLE)                                                                             \
    X(CL_MEM_OBJECT_ALLOCATION_FAILURE)                                                                      \
    X(CL_OUT_OF_RESOURCES)                                                                                   \
    X(CL_OUT_OF_HOST_MEMORY)                                                                                 \
    X(CL_PROFILING_INFO_NOT_AVAILABLE)                                                                       \
    X(CL_MEM_COPY_OVERLAP)                                                                                   \
    X(CL_BUILD_PROGRAM_FAILURE)                                                                              \
    X(CL_MAP_FAILURE)                                                                                        \
    X(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST)                                                          \
    X(CL_LINKER_NOT_AVAILABLE)                                                                               \
    X(CL_LINK_PROGRAM_FAILURE)                                                                               \
    X(CL_DEVICE_PARTITION_FAILED)                                                                            \
    X(CL_INVALID_VALUE)                                                                                      \
    X(CL_INVALID_DEVICE_TYPE)                                                                                \
    X(CL_INVALID_PLATFORM)                                                                                   \
    X(CL_INVALID_DEVICE)                                                                                     \
    X(CL_INVALID_CONTEXT)                                                                                    \
    X(CL_INVALID_QUEUE_PROPERTIES)                                                                           \
    X(CL_INVALID_COMMAND_QUEUE)                                                                              \
    X(CL_INVALID_HOST_PTR)                                                                                   \
    X(CL_INVALID_MEM_OBJECT)                                                                                 \
    X(CL_INVALID_BINARY)                                                                                     \
    X(CL_INVALID_BUILD_OPTIONS)                                                                              \
    X(CL_INVALID_PROGRAM)                                                                                    \
    X(CL_INVALID_PROGRAM_EXECUTABLE)                                                                         \
    X(CL_INVALID_KERNEL_NAME)                                                                                \
    X(CL_INVALID_KERNEL_DEFINITION)                                                                          \
    X(CL_INVALID_KERNEL)                                                                                     \
    X(CL_INVALID_ARG_INDEX)                                                                                  \
    X(CL_INVALID_ARG_VALUE)                                                                                  \
    X(CL_INVALID_ARG_SIZE)                                                                                   \
    X(CL_INVALID_KERNEL_ARGS)                                                                                \
    X(CL_INVALID_WORK_DIMENSION)                                                                             \
    X(CL_INVALID_WORK_GROUP_SIZE)                                                                            \
    X(CL_INVALID_WORK_ITEM_SIZE)                                                                             \
    X(CL_INVALID_GLOBAL_OFFSET)                                                                              \
    X(CL_INVALID_EVENT_WAIT_LIST)                                                                            \
    X(CL_INVALID_EVENT)                                                                                      \
    X(CL_INVALID_OPERATION)                                                                                  \
    X(CL_INVALID_BUFFER_SIZE)                                                                                \
    X(CL_INVALID_GLOBAL_WORK_SIZE)                                                                           \
    X(CL_INVALID_PROPERTY)                                                                                   \
    X(CL_INVALID_DEVICE_PARTITION_COUNT)                                                                     \
    X(CL_PLATFORM_NOT_FOUND_KHR)

/* "CL_INVALID_VALUE" for -30. */
static const char *name_of(cl_int error) {
    switch (error) {
#define CASE(name)                                                                                           \
    case name:                                                                                               \
        return #name;
        ERRORS(CASE)
#undef CASE
    default:
        return "an OpenCL error without a name";
    }
}

gs_status gs_cl_check(cl_int error, const char *format, ...) {
    if (error == CL_SUCCESS) return GS_OK;
    char what[512];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    bool memory = error == CL_MEM_OBJECT_ALLOCATION_FAILURE || error == CL_OUT_OF_HOST_MEMORY;
    return gs_fail(memory ? GS_E_MEMORY : GS_E_OPENCL, "%s: %s (%d)", what, name_of(error), (int)error);
}
