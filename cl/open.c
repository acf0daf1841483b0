/* Opens devices by name: "cl", "cl:P.D", "cl:P.D/KofN". */
#include "cl/cl.h"
#include "core/text.h"

#include <stdio.h>
#include <stdlib.h>

#define SLOT(name) .name = gs_cl_##name,
static const gs_backend backend = {.name = "cl",
                                   .read_begin = gs_cl_read_begin,
                                   .read_end = gs_cl_read_end,
                                   .sums_leaves = true,
                                   .narrow = gs_cl_narrow,
                                   GS_MEMORY_FUNCTIONS(SLOT) GS_OPERATORS(SLOT)};

/* The fields of a name. platform -1: the first device found; parts 0: the whole device. */
typedef struct place {
    int platform, device, part, parts;
} place;

/* Read a number of at most 6 digits at *at, and advance *at past it. */
static bool number(const char **at, int *value) {
    int digits = 0;
    *value = 0;
    for (; **at >= '0' && **at <= '9' && digits < 7; digits++, (*at)++) *value = *value * 10 + (**at - '0');
    return digits > 0 && digits < 7;
}

static bool word(const char **at, const char *expected) {
    size_t length = strlen(expected);
    if (strncmp(*at, expected, length) != 0) return false;
    *at += length;
    return true;
}

static gs_status parse(const char *name, place *p) {
    *p = (place){.platform = -1};
    const char *at = name;
    bool good = word(&at, "cl");
    if (good && *at)
        good = word(&at, ":") && number(&at, &p->platform) && word(&at, ".") && number(&at, &p->device);
    if (good && *at) {
        good = word(&at, "/") && number(&at, &p->part) && word(&at, "of") && number(&at, &p->parts) && !*at;
        if (good && p->part >= p->parts)
            return gs_fail(GS_E_USAGE, "device '%s': there is no part %d of %d; parts are numbered from 0",
                           name, p->part, p->parts);
    }
    if (!good)
        return gs_fail(
            GS_E_USAGE,
            "device '%s': at '%s': expected \"cl\", \"cl:P.D\" (device D of platform P, both from 0), or "
            "\"cl:P.D/KofN\" (part K, from 0, of N equal parts)",
            name, at);
    return GS_OK;
}

static gs_status find(const char *name, const place *p, cl_device_id *out) {
    cl_platform_id platform[GS_CL_MOST];
    cl_device_id device[GS_CL_MOST];
    cl_uint platforms, devices = 0;
    GS_TRY(gs_cl_platforms(platform, &platforms));
    if (platforms == 0) return gs_fail(GS_E_DEVICE, "device '%s': no OpenCL platform is installed", name);
    if (p->platform >= (int)platforms)
        return gs_fail(GS_E_DEVICE,
                       "device '%s': there is no OpenCL platform %d; there are %u, numbered from 0", name,
                       p->platform, platforms);
    for (cl_uint i = 0; i < platforms && devices == 0; i++) {
        if (p->platform >= 0 && p->platform != (int)i) continue;
        GS_TRY(gs_cl_devices_of(platform[i], (int)i, device, &devices));
        if (p->device < (int)devices)
            *out = device[p->device];
        else if (p->platform >= 0)
            return gs_fail(
                GS_E_DEVICE, "device '%s': OpenCL platform %u has no device %d; it has %u%s, numbered from 0",
                name, i, p->device, devices, devices == GS_CL_MOST ? " that gradsum looks at" : "");
    }
    return devices > 0 ? GS_OK : gs_fail(GS_E_DEVICE, "device '%s': there is no OpenCL device", name);
}

/* Replace cl->id, a whole device, with its part p->part. */
static gs_status take_part(gs_cl *cl, const char *name, const place *p) {
    int most = gs_cl_most_parts(cl->id),
        units = (int)gs_cl_device_number(cl->id, CL_DEVICE_MAX_COMPUTE_UNITS);
    if (most == 0)
        return gs_fail(GS_E_DEVICE, "device '%s': cl:%d.%d cannot be split into parts", name, p->platform,
                       p->device);
    if (p->parts > most || units % p->parts != 0) {
        char can[200] = "1";
        for (int n = 2; n <= most; n++)
            if (units % n == 0) gs_append(can, sizeof can, ", %d", n);
        return gs_fail(GS_E_DEVICE,
                       "device '%s': cl:%d.%d has %d unit%s; it can be split into %s equal parts, not %d",
                       name, p->platform, p->device, units, gs_s(units), can, p->parts);
    }
    const cl_device_partition_property how[] = {CL_DEVICE_PARTITION_EQUALLY, units / p->parts, 0};
    cl_uint made = 0;
    GS_TRY(gs_cl_check(clCreateSubDevices(cl->id, how, 0, NULL, &made), "device '%s': clCreateSubDevices",
                       name));
    if ((int)made <= p->part)
        return gs_fail(GS_E_DEVICE, "device '%s': OpenCL splits cl:%d.%d into only %u part%s", name,
                       p->platform, p->device, made, gs_s(made));
    cl_device_id *parts = calloc(made, sizeof *parts);
    if (!parts) return gs_fail(GS_E_MEMORY, "device '%s': no memory for %u parts", name, made);
    cl_int error = clCreateSubDevices(cl->id, how, made, parts, NULL);
    if (error == CL_SUCCESS) {
        for (cl_uint i = 0; i < made; i++)
            if ((int)i != p->part) clReleaseDevice(parts[i]);
        cl->id = parts[p->part];
        cl->part = true;
    }
    free(parts);
    return gs_cl_check(error, "device '%s': clCreateSubDevices", name);
}

/* The tiles: from GRADSUM_CL_TILES if it is set, so that any can be tried on any device; else by kind of device. */
static gs_status choose_tiles(gs_cl *cl) {
    enum { GROUP = 256 }; /* work-items per work-group with the default GPU tiles */
    cl_device_type type = gs_cl_device_number(cl->id, CL_DEVICE_TYPE);
    cl_ulong width = gs_cl_device_number(cl->id, CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT);
    bool gpu = (type & CL_DEVICE_TYPE_GPU) && !(type & CL_DEVICE_TYPE_CPU) &&
               gs_cl_device_number(cl->id, CL_DEVICE_MAX_WORK_GROUP_SIZE) >= GROUP;
    cl->tiles = gs_cl_tiles_default(gpu, width >= 16 ? 16 : width >= 8 ? 8 : 4);
    const char *wanted = getenv("GRADSUM_CL_TILES");
    if (!wanted || !*wanted || gs_cl_tiles_parse(wanted, &cl->tiles)) return GS_OK;
    return gs_fail(GS_E_USAGE,
                   "GRADSUM_CL_TILES is '%s'; it can be gpu, cpu, cpu4, cpu8, cpu16, or sizes such as "
                   "'cpu vector=16 rows=8 dot_rows=6 unroll=1 pack=1200' or 'gpu tile=64 each=4 step=16'",
                   wanted);
}

static void identify(gs_cl *cl) {
    cl_platform_id platform = NULL;
    char platform_name[100], version[200], device[150], driver[100];
    clGetDeviceInfo(cl->id, CL_DEVICE_PLATFORM, sizeof platform, &platform, NULL);
    gs_cl_platform_text(platform, CL_PLATFORM_NAME, platform_name, sizeof platform_name);
    gs_cl_platform_text(platform, CL_PLATFORM_VERSION, version, sizeof version);
    gs_cl_device_text(cl->id, CL_DEVICE_NAME, device, sizeof device);
    gs_cl_device_text(cl->id, CL_DRIVER_VERSION, driver, sizeof driver);
    snprintf(cl->identity, sizeof cl->identity, "%s, %s, %s, driver %s", device, platform_name, version,
             driver);
}

static gs_status open_device(gs_cl *cl, gs_device *d) {
    place p;
    cl_int error;
    GS_TRY(parse(d->name, &p));
    GS_TRY(find(d->name, &p, &cl->id));
    char name[100], units[40];
    int whole = (int)gs_cl_device_number(cl->id, CL_DEVICE_MAX_COMPUTE_UNITS);
    if (p.parts) GS_TRY(take_part(cl, d->name, &p));
    cl_bool available = CL_TRUE, compiler = CL_TRUE;
    clGetDeviceInfo(cl->id, CL_DEVICE_AVAILABLE, sizeof available, &available, NULL);
    clGetDeviceInfo(cl->id, CL_DEVICE_COMPILER_AVAILABLE, sizeof compiler, &compiler, NULL);
    if (!available || !compiler)
        return gs_fail(GS_E_DEVICE, "device '%s': %s", d->name,
                       available ? "its OpenCL has no compiler, which gradsum's kernels need"
                                 : "it is not available");
    identify(cl);
    GS_TRY(choose_tiles(cl));
    cl->units = gs_cl_device_number(cl->id, CL_DEVICE_MAX_COMPUTE_UNITS);
    cl->max_alloc = d->max_alloc = gs_cl_device_number(cl->id, CL_DEVICE_MAX_MEM_ALLOC_SIZE);
    gs_cl_device_text(cl->id, CL_DEVICE_NAME, name, sizeof name);
    if (p.parts)
        snprintf(units, sizeof units, "%zu of %d unit%s", cl->units, whole, gs_s(whole));
    else
        snprintf(units, sizeof units, "%d unit%s", whole, whole == 1 ? "" : "s");
    snprintf(d->description, sizeof d->description, "%s, %s", name, units);
    cl->context = clCreateContext(NULL, 1, &cl->id, NULL, NULL, &error);
    GS_TRY(gs_cl_check(error, "device '%s': clCreateContext", d->name));
    cl->queue = clCreateCommandQueue(cl->context, cl->id, 0, &error);
    return gs_cl_check(error, "device '%s': clCreateCommandQueue", d->name);
}

gs_status gs_cl_open(gs_device *d) {
    gs_cl *cl = calloc(1, sizeof *cl);
    if (!cl) return gs_fail(GS_E_MEMORY, "device '%s': no memory", d->name);
    d->ops = &backend;
    d->state = cl;
    gs_cl_lock();
    cl->number = gs_cl_take_number();
    gs_status st = open_device(cl, d);
    gs_cl_unlock();
    if (st != GS_OK) gs_cl_close(d);
    return st;
}
