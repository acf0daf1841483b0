/* What OpenCL says of its platforms and devices. */
#include "cl/platforms.h"
#include "core/thread.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pthread_mutex_t setting_up = PTHREAD_MUTEX_INITIALIZER;

void gs_cl_lock(void) {
    pthread_mutex_lock(&setting_up);
}

void gs_cl_unlock(void) {
    pthread_mutex_unlock(&setting_up);
}

bool gs_cl_has_all_cores(const cpu_set_t *mine, long online) {
    for (long i = 0; i < online; i++)
        if (i >= CPU_SETSIZE || !CPU_ISSET((size_t)i, mine)) return false;
    return CPU_COUNT(mine) == online;
}

void gs_cl_choose_settings(bool alone) {
    cpu_set_t mine;
    gs_cl_choose_path();
    setenv("POCL_WORK_GROUP_SPECIALIZATION", "0", 0);
    if (!alone || getenv("POCL_MAX_PTHREAD_COUNT")) return; /* fewer threads, for others' sake */
    if (sched_getaffinity(0, sizeof mine, &mine) == 0 &&
        gs_cl_has_all_cores(&mine, sysconf(_SC_NPROCESSORS_ONLN)))
        setenv("POCL_AFFINITY", "1", 0);
}

gs_status gs_cl_platforms(cl_platform_id **out, cl_uint *count) {
    *out = NULL;
    *count = 0;
    gs_thread_enlarge_default();
    cl_int error = clGetPlatformIDs(0, NULL, count);
    if (error == CL_PLATFORM_NOT_FOUND_KHR || (error == CL_SUCCESS && *count == 0)) {
        *count = 0; /* no OpenCL is installed: no failure, there are just no devices */
        return GS_OK;
    }
    GS_TRY(gs_cl_check(error, "cl: clGetPlatformIDs"));
    cl_platform_id *ids = calloc(*count, sizeof *ids);
    if (!ids) return gs_fail(GS_E_MEMORY, "cl: no memory for %u platforms", *count);
    error = clGetPlatformIDs(*count, ids, NULL);
    if (error != CL_SUCCESS) {
        free(ids);
        return gs_cl_check(error, "cl: clGetPlatformIDs");
    }
    *out = ids;
    return GS_OK;
}

gs_status gs_cl_devices_of(cl_platform_id platform, int number, cl_device_id **out, cl_uint *count) {
    *out = NULL;
    *count = 0;
    GS_TRY(gs_cl_check_cache(platform));
    cl_int error = clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 0, NULL, count);
    if (error == CL_DEVICE_NOT_FOUND || (error == CL_SUCCESS && *count == 0)) {
        *count = 0;
        return GS_OK;
    }
    GS_TRY(gs_cl_check(error, "cl:%d: clGetDeviceIDs", number));
    cl_device_id *ids = calloc(*count, sizeof *ids);
    if (!ids) return gs_fail(GS_E_MEMORY, "cl:%d: no memory for %u devices", number, *count);
    error = clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, *count, ids, NULL);
    if (error != CL_SUCCESS) {
        free(ids);
        return gs_cl_check(error, "cl:%d: clGetDeviceIDs", number);
    }
    *out = ids;
    return GS_OK;
}

static void trim(char *text) {
    size_t begin = strspn(text, " "), end = strlen(text);
    while (end > begin && text[end - 1] == ' ') end--;
    memmove(text, text + begin, end - begin);
    text[end - begin] = '\0';
}

void gs_cl_device_text(cl_device_id id, cl_device_info what, char *text, size_t size) {
    char whole[1024] = "";
    clGetDeviceInfo(id, what, sizeof whole - 1, whole, NULL);
    trim(whole);
    snprintf(text, size, "%s", whole);
}

void gs_cl_platform_text(cl_platform_id id, cl_platform_info what, char *text, size_t size) {
    char whole[1024] = "";
    clGetPlatformInfo(id, what, sizeof whole - 1, whole, NULL);
    trim(whole);
    snprintf(text, size, "%s", whole);
}

/* OpenCL writes a shorter number into the first bytes, which are the low ones. */
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "a cl_uint is read as a cl_ulong");
cl_ulong gs_cl_device_number(cl_device_id id, cl_device_info what) {
    cl_ulong value = 0;
    clGetDeviceInfo(id, what, sizeof value, &value, NULL);
    return value;
}

int gs_cl_most_parts(cl_device_id id) {
    cl_device_partition_property can[16] = {0};
    size_t bytes = 0;
    if (clGetDeviceInfo(id, CL_DEVICE_PARTITION_PROPERTIES, sizeof can, can, &bytes) != CL_SUCCESS) return 0;
    bool equally = false;
    for (size_t i = 0; i < bytes / sizeof *can; i++) equally |= can[i] == CL_DEVICE_PARTITION_EQUALLY;
    cl_ulong most = gs_cl_device_number(id, CL_DEVICE_PARTITION_MAX_SUB_DEVICES);
    return equally && most > 1 ? (int)most : 0;
}

static gs_status list(gs_device_info **out, int *count, const char **problem) {
    static _Thread_local char trouble[300];
    trouble[0] = '\0';
    *out = NULL;
    *count = 0;
    if (problem) *problem = trouble;
    cl_platform_id *platform;
    cl_uint platform_count;
    gs_status st = gs_cl_platforms(&platform, &platform_count);
    if (st == GS_E_MEMORY) return st;
    if (st != GS_OK) snprintf(trouble, sizeof trouble, "%s", gs_message());
    for (cl_uint p = 0; p < platform_count; p++) {
        cl_device_id *device;
        cl_uint device_count;
        st = gs_cl_devices_of(platform[p], (int)p, &device, &device_count);
        if (st != GS_OK) { /* the others may still be of use */
            snprintf(trouble, sizeof trouble, "%s", gs_message());
            continue;
        }
        gs_device_info *grown =
            device_count ? realloc(*out, ((size_t)*count + device_count) * sizeof *grown) : *out;
        if (device_count && !grown) {
            free(device);
            free(platform);
            free(*out);
            *out = NULL;
            *count = 0;
            return gs_fail(GS_E_MEMORY, "cl: no memory for a list of devices");
        }
        *out = grown;
        for (cl_uint i = 0; i < device_count; i++) {
            gs_device_info *info = &(*out)[(*count)++];
            *info =
                (gs_device_info){.units = (int)gs_cl_device_number(device[i], CL_DEVICE_MAX_COMPUTE_UNITS),
                                 .memory = gs_cl_device_number(device[i], CL_DEVICE_GLOBAL_MEM_SIZE),
                                 .sub_devices = gs_cl_most_parts(device[i])};
            cl_device_type type = gs_cl_device_number(device[i], CL_DEVICE_TYPE);
            snprintf(info->name, sizeof info->name, "cl:%u.%u", p, i);
            gs_cl_device_text(device[i], CL_DEVICE_NAME, info->description, sizeof info->description);
            snprintf(info->kind, sizeof info->kind, "%s",
                     type & CL_DEVICE_TYPE_CPU   ? "cpu"
                     : type & CL_DEVICE_TYPE_GPU ? "gpu"
                                                 : "accelerator");
            char platform_name[64], version[64], driver[48];
            gs_cl_platform_text(platform[p], CL_PLATFORM_NAME, platform_name, sizeof platform_name);
            gs_cl_platform_text(platform[p], CL_PLATFORM_VERSION, version, sizeof version);
            char *options = strstr(version, "  "); /* PoCL goes on with how it was compiled */
            if (options) *options = '\0';
            gs_cl_device_text(device[i], CL_DRIVER_VERSION, driver, sizeof driver);
            snprintf(info->note, sizeof info->note, "%s, %s, driver %s", platform_name, version, driver);
        }
        free(device);
    }
    free(platform);
    return GS_OK;
}

gs_status gs_cl_list(gs_device_info **out, int *count, const char **problem) {
    gs_cl_lock();
    gs_status st = list(out, count, problem);
    gs_cl_unlock();
    return st;
}
