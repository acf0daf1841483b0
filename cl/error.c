#include "cl/cl.h"

#include <stdarg.h>
#include <stdio.h>

/* The names of OpenCL 1.2's error codes in order: without "CL_", starting at -1 ... */
static const char failures[] =
    "DEVICE_NOT_FOUND DEVICE_NOT_AVAILABLE COMPILER_NOT_AVAILABLE MEM_OBJECT_ALLOCATION_FAILURE "
    "OUT_OF_RESOURCES OUT_OF_HOST_MEMORY PROFILING_INFO_NOT_AVAILABLE MEM_COPY_OVERLAP IMAGE_FORMAT_MISMATCH "
    "IMAGE_FORMAT_NOT_SUPPORTED BUILD_PROGRAM_FAILURE MAP_FAILURE MISALIGNED_SUB_BUFFER_OFFSET "
    "EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST COMPILE_PROGRAM_FAILURE LINKER_NOT_AVAILABLE "
    "LINK_PROGRAM_FAILURE DEVICE_PARTITION_FAILED KERNEL_ARG_INFO_NOT_AVAILABLE";
/* ... and without "CL_INVALID_", starting at CL_INVALID_VALUE, -30. */
static const char arguments[] =
    "VALUE DEVICE_TYPE PLATFORM DEVICE CONTEXT QUEUE_PROPERTIES COMMAND_QUEUE HOST_PTR MEM_OBJECT "
    "IMAGE_FORMAT_DESCRIPTOR IMAGE_SIZE SAMPLER BINARY BUILD_OPTIONS PROGRAM PROGRAM_EXECUTABLE "
    "KERNEL_NAME KERNEL_DEFINITION KERNEL ARG_INDEX ARG_VALUE ARG_SIZE KERNEL_ARGS WORK_DIMENSION "
    "WORK_GROUP_SIZE WORK_ITEM_SIZE GLOBAL_OFFSET EVENT_WAIT_LIST EVENT OPERATION GL_OBJECT BUFFER_SIZE "
    "MIP_LEVEL GLOBAL_WORK_SIZE PROPERTY IMAGE_DESCRIPTOR COMPILER_OPTIONS LINKER_OPTIONS "
    "DEVICE_PARTITION_COUNT";

/* name = `begin` followed by word `number`, counting from 0; unchanged if there is no such word. */
static void name_it(char *name, size_t size, const char *begin, const char *words, int number) {
    for (; number > 0 && *words; number--) words += strcspn(words, " ") + (strchr(words, ' ') != NULL);
    if (number == 0 && *words) snprintf(name, size, "%s%.*s", begin, (int)strcspn(words, " "), words);
}

gs_status gs_cl_check(cl_int error, const char *format, ...) {
    if (error == CL_SUCCESS) return GS_OK;
    char what[512], name[64] = "an OpenCL error without a name";
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    name_it(name, sizeof name, "CL_", failures, -1 - error);
    name_it(name, sizeof name, "CL_INVALID_", arguments, CL_INVALID_VALUE - error);
    name_it(name, sizeof name, "CL_", "PLATFORM_NOT_FOUND_KHR", CL_PLATFORM_NOT_FOUND_KHR - error);
    bool memory = error == CL_MEM_OBJECT_ALLOCATION_FAILURE || error == CL_OUT_OF_HOST_MEMORY;
    return gs_fail(memory ? GS_E_MEMORY : GS_E_OPENCL, "%s: %s (%d)", what, name, (int)error);
}
