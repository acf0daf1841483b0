/* From source to a program: compiled, or read from the user's cache directory (io/cache.h).
 *
 * An entry's name is the SHA-256 of everything the binary depends on: platform, device, driver, options, and the source
 * with its included files. So an entry is never out of date. If an entry is damaged or the driver rejects it, the
 * program is compiled again and the entry replaced.
 *
 * PoCL 3.1 has its own cache, into which it also unpacks the binaries it is given; there, processes corrupt each
 * other's files (pocl issue 1480). So only one process at a time compiles or unpacks; the others then find the entry.
 * (PoCL generates machine code when a kernel is first enqueued or, as here, when its binary is requested.) */
#include "cl/cl.h"

#include <stdlib.h>
#include <unistd.h>

#include "io/cache.h"
#include "io/file.h"

enum { OPTIONS = 400 };

/* Kernels that every worker repeats, and with --exact all, must round divisions and square roots identically on every
 * device. For other kernels, that would cost time on a GPU and gain nothing. */
static bool rounds_quotients(const gs_cl *cl, bool exact, const char *file) {
    cl_device_fp_config can = 0;
    clGetDeviceInfo(cl->id, CL_DEVICE_SINGLE_FP_CONFIG, sizeof can, &can, NULL);
    return (exact || strcmp(file, "adam.cl") == 0) && (can & CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT);
}

/* Sets no option that permits less exact arithmetic: a NaN must stay a NaN, and lost precision costs days to find. */
static void write_options(const gs_cl *cl, bool exact, const char *file, char *options) {
    const gs_cl_tiles *t = &cl->tiles;
    char copy[30];
    gs_cl_copy_option(cl->identity, cl->number, copy, sizeof copy);
    int used = snprintf(options, OPTIONS, "-cl-std=CL1.2 %s%s-D GS_SUM_ITEMS=%d -D GS_PACK=%d%s",
                        rounds_quotients(cl, exact, file) ? "-cl-fp32-correctly-rounded-divide-sqrt " : "",
                        exact ? "-D GS_EXACT " : "", GS_SUM_ITEMS, GS_PACK, copy);
    if (t->gpu)
        snprintf(options + used, OPTIONS - (size_t)used,
                 " -D GS_GPU -D GS_VECTOR=1 -D GS_LANES=%d -D GS_TILE=%d -D GS_EACH=%d -D GS_STEP=%d -D "
                 "GS_GROUP=%zu",
                 GS_LANES, t->tile, t->each, t->step, gs_cl_group(t));
    else
        snprintf(options + used, OPTIONS - (size_t)used,
                 " -D GS_VECTOR=%d -D GS_LANES=1 -D GS_ROWS=%d -D GS_ROWS_LOW=%d -D GS_DOT_ROWS=%d -D "
                 "GS_DOT_COLUMNS=%d -D GS_UNROLL=%d",
                 t->vector, t->rows, gs_cl_rows_low(t), t->dot_rows, GS_DOT_COLUMNS, t->unroll);
}

/* Print the compiler's log, and put its first error into the message. */
static gs_status build_failed(const gs_cl *cl, cl_program program, cl_int error, const char *file) {
    size_t size = 0;
    clGetProgramBuildInfo(program, cl->id, CL_PROGRAM_BUILD_LOG, 0, NULL, &size);
    char *log = calloc(1, size + 1);
    if (log) clGetProgramBuildInfo(program, cl->id, CL_PROGRAM_BUILD_LOG, size, log, NULL);
    const char *first = log ? strstr(log, "error") : NULL;
    while (first && first > log && first[-1] != '\n') first--;
    if (log && *log) fprintf(stderr, "%s: the OpenCL compiler says:\n%s\n", file, log);
    gs_status st = gs_cl_check(error, "%s: clBuildProgram", file);
    if (first) st = gs_fail(st, "%s: %.*s", gs_message(), (int)strcspn(first, "\n"), first);
    free(log);
    return st;
}

/* PoCL 3.1 has clang link each kernel, and clang searches PATH for `ld`. If there is none, PoCL ends the process. */
static bool has_linker(const char *path) {
    while (*path) {
        char file[4096];
        const int length = (int)strcspn(path, ":");
        snprintf(file, sizeof file, "%.*s/ld", length, path);
        if (length > 0 && access(file, R_OK | X_OK) == 0) return true;
        path += length + (path[length] == ':');
    }
    return false;
}

static gs_status check_linker(const gs_cl *cl) {
    const char *path = getenv("PATH");
    if (!strstr(cl->identity, "PoCL 3.") || (path && has_linker(path))) return GS_OK;
    return gs_fail(GS_E_OPENCL,
                   "PoCL needs the linker ld to compile kernels, but no folder in PATH (%.300s) has it",
                   path ? path : "not set");
}

static gs_status compile(const gs_cl *cl, const char *file, const char *source, const char *options,
                         cl_program *out) {
    cl_int error;
    GS_TRY(gs_context(check_linker(cl), "%s", file));
    cl_program program = clCreateProgramWithSource(cl->context, 1, &source, NULL, &error);
    GS_TRY(gs_cl_check(error, "%s: clCreateProgramWithSource", file));
    error = clBuildProgram(program, 1, &cl->id, options, NULL, NULL);
    if (error != CL_SUCCESS) {
        gs_status st = build_failed(cl, program, error, file);
        clReleaseProgram(program);
        return st;
    }
    *out = program;
    return GS_OK;
}

enum { NAME = 80 };

static bool write_name(const gs_cl *cl, const char *source, const char *options, char name[NAME]) {
    char digest[65], *all;
    int length = asprintf(&all, "gradsum kernels 1\n%s\n%s\n%s", cl->identity, options, source);
    if (length < 0) return false;
    gs_sha256(all, (size_t)length, digest);
    free(all);
    snprintf(name, NAME, "%s.bin", digest);
    return true;
}

static bool load(const gs_cl *cl, const char *name, const char *options, cl_program *out) {
    void *data;
    size_t bytes;
    if (!gs_cache_read(name, &data, &bytes)) return false;
    const unsigned char *binary = data;
    cl_int error, good = CL_SUCCESS;
    cl_program program = clCreateProgramWithBinary(cl->context, 1, &cl->id, &bytes, &binary, &good, &error);
    free(data);
    if (error != CL_SUCCESS) return false;
    if (good == CL_SUCCESS && clBuildProgram(program, 1, &cl->id, options, NULL, NULL) == CL_SUCCESS) {
        *out = program;
        return true;
    }
    clReleaseProgram(program);
    return false;
}

/* If the driver returns no binary, or an empty one, there is nothing to store. */
static void store(cl_program program, const char *name) {
    size_t bytes = 0;
    if (clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof bytes, &bytes, NULL) != CL_SUCCESS ||
        bytes == 0)
        return;
    unsigned char *binary = malloc(bytes);
    if (binary && clGetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof binary, &binary, NULL) == CL_SUCCESS)
        gs_cache_write(name, binary, bytes);
    free(binary);
}

gs_status gs_cl_build(const gs_cl *cl, bool exact, const char *file, const char *source, cl_program *out) {
    char options[OPTIONS], name[NAME], folder[4096];
    write_options(cl, exact, file, options);
    bool keep = gs_cache_path("", folder, sizeof folder) && write_name(cl, source, options, name);
    gs_status st = GS_OK;
    gs_cl_lock();
    int lock = keep ? gs_cache_lock() : -1;
    if (!keep || !load(cl, name, options, out)) {
        st = compile(cl, file, source, options, out);
        if (keep && st == GS_OK) store(*out, name);
    }
    gs_cache_unlock(lock);
    gs_cl_unlock();
    return st;
}
