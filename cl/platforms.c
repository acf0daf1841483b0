/* Lists OpenCL's platforms and devices. */
#include "cl/cl.h"
#include "core/thread.h"

#include <stdio.h>
#include <stdlib.h>
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
    setenv("POCL_WORK_GROUP_SPECIALIZATION", "0", 0);
    if (!alone || getenv("POCL_MAX_PTHREAD_COUNT")) return; /* shared cores: do not bind PoCL to them */
    if (sched_getaffinity(0, sizeof mine, &mine) == 0 &&
        gs_cl_has_all_cores(&mine, sysconf(_SC_NPROCESSORS_ONLN)))
        setenv("POCL_AFFINITY", "1", 0);
}

/* Check a call that lists objects; `none` is the error it returns for an empty list. */
static gs_status listed(cl_int error, cl_int none, cl_uint *count, const char *what) {
    if (error != CL_SUCCESS) *count = 0;
    if (error == none) error = CL_SUCCESS;
    if (*count > GS_CL_MOST) *count = GS_CL_MOST;
    return gs_cl_check(error, "%s", what);
}

gs_status gs_cl_platforms(cl_platform_id out[GS_CL_MOST], cl_uint *count) {
    *count = 0;
    gs_thread_enlarge_default();
    return listed(clGetPlatformIDs(GS_CL_MOST, out, count), CL_PLATFORM_NOT_FOUND_KHR, count,
                  "cl: clGetPlatformIDs");
}

gs_status gs_cl_devices_of(cl_platform_id platform, int number, cl_device_id out[GS_CL_MOST],
                           cl_uint *count) {
    char what[40];
    *count = 0;
    GS_TRY(gs_cl_check_cache(platform));
    snprintf(what, sizeof what, "cl:%d: clGetDeviceIDs", number);
    return listed(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, GS_CL_MOST, out, count), CL_DEVICE_NOT_FOUND,
                  count, what);
}

/* Copy the text without leading and trailing spaces. */
static void copy_trimmed(const char *from, char *text, size_t size) {
    from += strspn(from, " ");
    int length = (int)strlen(from);
    while (length > 0 && from[length - 1] == ' ') length--;
    snprintf(text, size, "%.*s", length, from);
}

void gs_cl_device_text(cl_device_id id, cl_device_info what, char *text, size_t size) {
    char whole[1024] = "";
    clGetDeviceInfo(id, what, sizeof whole - 1, whole, NULL);
    copy_trimmed(whole, text, size);
}

void gs_cl_platform_text(cl_platform_id id, cl_platform_info what, char *text, size_t size) {
    char whole[1024] = "";
    clGetPlatformInfo(id, what, sizeof whole - 1, whole, NULL);
    copy_trimmed(whole, text, size);
}

/* OpenCL writes a narrower integer into the first bytes, which are the low ones. */
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

static void describe(cl_platform_id platform, cl_device_id device, gs_device_info *info) {
    char platform_name[64], version[64], driver[48];
    const cl_device_type type = gs_cl_device_number(device, CL_DEVICE_TYPE);
    info->units = (int)gs_cl_device_number(device, CL_DEVICE_MAX_COMPUTE_UNITS);
    info->memory = gs_cl_device_number(device, CL_DEVICE_GLOBAL_MEM_SIZE);
    info->sub_devices = gs_cl_most_parts(device);
    gs_cl_device_text(device, CL_DEVICE_NAME, info->description, sizeof info->description);
    snprintf(info->kind, sizeof info->kind, "%s",
             type & CL_DEVICE_TYPE_CPU   ? "cpu"
             : type & CL_DEVICE_TYPE_GPU ? "gpu"
                                         : "accelerator");
    gs_cl_platform_text(platform, CL_PLATFORM_NAME, platform_name, sizeof platform_name);
    gs_cl_platform_text(platform, CL_PLATFORM_VERSION, version, sizeof version);
    char *options = strstr(version, "  "); /* PoCL appends its build options */
    if (options) *options = '\0';
    gs_cl_device_text(device, CL_DRIVER_VERSION, driver, sizeof driver);
    snprintf(info->note, sizeof info->note, "%s, %s, driver %s", platform_name, version, driver);
}

/* Appends to *out. */
static gs_status list(gs_device_info **out, int *count, const char **problem) {
    static _Thread_local char trouble[300];
    cl_platform_id platform[GS_CL_MOST];
    cl_device_id device[GS_CL_MOST];
    cl_uint platforms, devices;
    trouble[0] = '\0';
    if (problem) *problem = trouble;
    if (gs_cl_platforms(platform, &platforms) != GS_OK) snprintf(trouble, sizeof trouble, "%s", gs_message());
    for (cl_uint p = 0; p < platforms; p++) {
        /* the other platforms may still be usable */
        if (gs_cl_devices_of(platform[p], (int)p, device, &devices) != GS_OK) {
            snprintf(trouble, sizeof trouble, "%s", gs_message());
            continue;
        }
        gs_device_info *grown = realloc(*out, ((size_t)*count + devices) * sizeof *grown);
        if (!grown) return gs_fail(GS_E_MEMORY, "cl: no memory for a list of devices");
        *out = grown;
        for (cl_uint i = 0; i < devices; i++) {
            gs_device_info *info = &(*out)[(*count)++];
            *info = (gs_device_info){.units = 0};
            snprintf(info->name, sizeof info->name, "cl:%u.%u", p, i);
            describe(platform[p], device[i], info);
        }
    }
    return GS_OK;
}

gs_status gs_cl_list(gs_device_info **out, int *count, const char **problem) {
    gs_cl_lock();
    gs_status st = list(out, count, problem);
    gs_cl_unlock();
    return st;
}
