/* The OpenCL backend: kernels in files, and host functions of a few lines that enqueue them.
 *
 *     open.c     platforms, devices and their parts; the table of functions
 *     program.c  finds a kernel's file, builds it once for each open device, and runs it
 *     memory.c   buffers, and the scratch memory that operators share
 *     error.c    OpenCL's error codes by name
 *     NAME.c     the operator NAME: sizes in, kernels of NAME.cl enqueued
 *
 * Operators enqueue and return; the queue is in order, so each kernel sees what the one before it wrote. A device is
 * used by one thread at a time, so nothing that hangs on it is locked.
 *
 * A kernel that is fast on a GPU is slow on a CPU, and the other way round. Where that matters a .cl file holds both,
 * and the macros GS_GPU and GS_VECTOR, set when it is built, say for which kind of device it is (see gs_cl).
 */
#ifndef GS_CL_CL_H
#define GS_CL_CL_H

#include <CL/cl.h>
#include <CL/cl_ext.h>
#include "backend.h"

/* Memory that operators use between two of their kernels; each of these is one buffer that grows to the largest need
 * and is freed when the device is closed. */
typedef enum gs_cl_scratch_use {
    GS_CL_SCRATCH_X,       /* images with their padding */
    GS_CL_SCRATCH_DY,      /* gradients with theirs */
    GS_CL_SCRATCH_W,       /* weights in another order */
    GS_CL_SCRATCH_PLACES,  /* where each row of a product begins */
    GS_CL_SCRATCH_PARTIAL, /* partial sums */
    GS_CL_SCRATCHES
} gs_cl_scratch_use;

/* What device->state points to. */
typedef struct gs_cl {
    cl_device_id id;
    bool part; /* a sub-device, to be released */
    cl_context context;
    cl_command_queue queue;

    bool
        gpu; /* kernels in GPU style: neighbouring work-items read neighbouring addresses, tiles in __local memory;
                   * otherwise CPU style: one work-item computes a tile of vectors in its registers */
    int vector;       /* floats in a vector register: 4, 8 or 16 */
    int units;        /* compute units */
    size_t max_alloc; /* bytes that one buffer may have */

    struct gs_cl_program *programs; /* built so far */
    struct gs_cl_kernel *kernels;   /* used so far */
    int program_count, kernel_count;
    unsigned long enqueued; /* kernels so far */

    gs_mem scratch[GS_CL_SCRATCHES];
    size_t scratch_count[GS_CL_SCRATCHES]; /* floats in each */
} gs_cl;

static inline gs_cl *gs_cl_of(gs_device *device) {
    return (gs_cl *)device->state;
}

/* Held while a thread opens, closes or lists devices, or compiles: workers that open their devices at the same time would
 * else meet inside of OpenCL, where its first call sets up everything (PoCL 3.1 then crashes). */
void gs_cl_lock(void);
void gs_cl_unlock(void);

/* ---- errors ---- */

/* "CL_INVALID_VALUE" for -30. Any other number: "an OpenCL error without a name". */
const char *gs_cl_error_name(cl_int error);

/* GS_OK for CL_SUCCESS, else GS_E_OPENCL (GS_E_MEMORY where memory is out); the message is "WHAT: NAME (number)". */
gs_status gs_cl_check(cl_int error, const char *format, ...) GS_PRINTF(2, 3);

/* ---- running kernels ---- */

/* How many work-items: groups x local in each of three dimensions. */
typedef struct gs_cl_grid {
    size_t groups[3], local[3];
} gs_cl_grid;

/* At least `items` work-items in one dimension, in groups of `local`; the kernel lets those at the end that are too many
 * do nothing. */
gs_cl_grid gs_cl_items(size_t items, size_t local);

/* The grid of an element-wise kernel on `count` elements (GS_FIRST in common.clh). */
gs_cl_grid gs_cl_elements(gs_device *, size_t count);

/* The grid of a kernel that goes through planes of so many rows (GS_PLANE and GS_ROW in common.clh). */
gs_cl_grid gs_cl_planes(gs_device *, size_t planes, size_t rows);

/* One argument of a kernel. A gs_mem becomes two: the buffer, and `at` as a ulong. */
typedef struct gs_cl_arg {
    enum { GS_CL_MEM, GS_CL_BUFFER, GS_CL_INT, GS_CL_ULONG, GS_CL_FLOAT, GS_CL_STRUCT } kind;
    size_t size; /* of a struct */
    union {
        gs_mem mem;
        cl_int i;
        cl_ulong u;
        cl_float f;
        const void *bytes;
    } value;
} gs_cl_arg;

static inline gs_cl_arg gs_cl_arg_mem(gs_mem m) {
    return (gs_cl_arg){GS_CL_MEM, 0, {.mem = m}};
}
static inline gs_cl_arg gs_cl_arg_int(int i) {
    return (gs_cl_arg){GS_CL_INT, 0, {.i = i}};
}
static inline gs_cl_arg gs_cl_arg_ulong(uint64_t u) {
    return (gs_cl_arg){GS_CL_ULONG, 0, {.u = u}};
}
static inline gs_cl_arg gs_cl_arg_float(float f) {
    return (gs_cl_arg){GS_CL_FLOAT, 0, {.f = f}};
}

/* An argument from a gs_mem, int, float, size_t or uint64_t; the last two are ulong in the kernel. */
#define GS_ARG(x)                                                                                            \
    _Generic((x), gs_mem                                                                                     \
             : gs_cl_arg_mem, int                                                                            \
             : gs_cl_arg_int, float                                                                          \
             : gs_cl_arg_float, unsigned                                                                     \
             : gs_cl_arg_ulong, unsigned long                                                                \
             : gs_cl_arg_ulong, unsigned long long                                                           \
             : gs_cl_arg_ulong)(x)
/* The buffer alone, when the kernel wants its beginning. */
#define GS_ARG_BUFFER(m) ((gs_cl_arg){GS_CL_BUFFER, 0, {.mem = (m)}})
/* A struct by value; the kernel's file declares the same members in the same order. */
#define GS_ARG_STRUCT(s) ((gs_cl_arg){GS_CL_STRUCT, sizeof(s), {.bytes = &(s)}})

/* Enqueue kernel `name` of cl/FILE.cl, which is found and built when it is first used. Nothing happens if the grid is
 * empty. GS_E_FILE: there is no such file. GS_E_OPENCL: it does not compile (the compiler's words go to standard error),
 * or a call failed. */
gs_status gs_cl_run(gs_device *, const char *file, const char *name, gs_cl_grid, const gs_cl_arg *args,
                    int count);

/* gs_cl_run with the arguments in order: GS_CL_RUN(device, "relu", "relu_forward", grid, GS_ARG(y), GS_ARG(x), ...) */
#define GS_CL_RUN(device, file, name, grid, ...)                                                             \
    gs_cl_run(device, file, name, grid, (const gs_cl_arg[]){__VA_ARGS__},                                    \
              (int)(sizeof((const gs_cl_arg[]){__VA_ARGS__}) / sizeof(gs_cl_arg)))

/* Release all programs and kernels of a device. */
void gs_cl_programs_free(gs_cl *);

/* ---- memory ---- */

/* *out = the scratch buffer for `use`, grown to at least `count` floats. What it holds is undefined. */
gs_status gs_cl_scratch(gs_device *, gs_cl_scratch_use use, size_t count, gs_mem *out);

gs_status gs_cl_alloc(gs_device *, size_t bytes, gs_mem *out);
void gs_cl_free(gs_device *, gs_mem);
gs_status gs_cl_write(gs_device *, gs_mem to, const void *from, size_t bytes);
gs_status gs_cl_read(gs_device *, void *to, gs_mem from, size_t bytes);
gs_status gs_cl_map(gs_device *, gs_mem, size_t bytes, void **host);
gs_status gs_cl_unmap(gs_device *, gs_mem, void *host);
gs_status gs_cl_fill(gs_device *, gs_mem x, float value, size_t count);
gs_status gs_cl_copy(gs_device *, gs_mem to, gs_mem from, size_t count);
gs_status gs_cl_finish(gs_device *);
void gs_cl_close(gs_device *);

/* ---- operators: see src/backend.h ---- */

gs_status gs_cl_bytes_to_float(gs_device *, gs_mem y, gs_mem bytes, float scale, float shift, size_t count);
gs_status gs_cl_one_hot(gs_device *, gs_mem y, gs_mem labels, size_t n, int classes);
gs_status gs_cl_linear_forward(gs_device *, gs_mem y, gs_mem x, gs_mem w, gs_mem b, size_t n, int in,
                               int out);
gs_status gs_cl_linear_backward(gs_device *, gs_mem dx, gs_mem dw, gs_mem db, gs_mem dy, gs_mem x, gs_mem w,
                                size_t n, int in, int out);
gs_status gs_cl_conv2d_forward(gs_device *, gs_mem y, gs_mem x, gs_mem w, gs_mem b, size_t n,
                               const gs_conv2d_sizes *);
gs_status gs_cl_conv2d_backward(gs_device *, gs_mem dx, gs_mem dw, gs_mem db, gs_mem dy, gs_mem x, gs_mem w,
                                size_t n, const gs_conv2d_sizes *);
gs_status gs_cl_max_pool2d_forward(gs_device *, gs_mem y, gs_mem index, gs_mem x, size_t n,
                                   const gs_pool2d_sizes *);
gs_status gs_cl_max_pool2d_backward(gs_device *, gs_mem dx, gs_mem dy, gs_mem index, size_t n,
                                    const gs_pool2d_sizes *);
gs_status gs_cl_avg_pool2d_forward(gs_device *, gs_mem y, gs_mem x, size_t n, const gs_pool2d_sizes *);
gs_status gs_cl_avg_pool2d_backward(gs_device *, gs_mem dx, gs_mem dy, size_t n, const gs_pool2d_sizes *);
gs_status gs_cl_relu_forward(gs_device *, gs_mem y, gs_mem x, size_t count);
gs_status gs_cl_relu_backward(gs_device *, gs_mem dx, gs_mem dy, gs_mem y, size_t count);
gs_status gs_cl_tanh_forward(gs_device *, gs_mem y, gs_mem x, size_t count);
gs_status gs_cl_tanh_backward(gs_device *, gs_mem dx, gs_mem dy, gs_mem y, size_t count);
gs_status gs_cl_sigmoid_forward(gs_device *, gs_mem y, gs_mem x, size_t count);
gs_status gs_cl_sigmoid_backward(gs_device *, gs_mem dx, gs_mem dy, gs_mem y, size_t count);
gs_status gs_cl_dropout_forward(gs_device *, gs_mem y, gs_mem x, size_t count, gs_dropout_draw);
gs_status gs_cl_dropout_backward(gs_device *, gs_mem dx, gs_mem dy, size_t count, gs_dropout_draw);
gs_status gs_cl_add(gs_device *, gs_mem y, gs_mem a, gs_mem b, size_t count);
gs_status gs_cl_softmax_cross_entropy_forward(gs_device *, gs_mem p, gs_mem stats, gs_mem x, gs_mem labels,
                                              size_t n, int classes);
gs_status gs_cl_softmax_cross_entropy_backward(gs_device *, gs_mem dx, gs_mem p, gs_mem labels, size_t n,
                                               int classes);
gs_status gs_cl_mean_squared_error_forward(gs_device *, gs_mem stats, gs_mem x, gs_mem t, size_t n, int k);
gs_status gs_cl_mean_squared_error_backward(gs_device *, gs_mem dx, gs_mem x, gs_mem t, size_t n, int k);
gs_status gs_cl_sgd_update(gs_device *, gs_mem w, gs_mem v, gs_mem dw, size_t count, float scale, float lr,
                           float momentum, float weight_decay);

/* Used by operators: */

/* C = A B and its variants: cl/gemm.c. */
typedef struct gs_cl_gemm_sizes {
    cl_ulong m, n, k, a_row, a_col, b_row,
        b_col;            /* A(i, k) = a[i a_row + k a_col], B(k, j) = b[k b_row + j b_col] */
    cl_int add, has_bias; /* add: C += A B; has_bias is set by gs_cl_gemm */
} gs_cl_gemm_sizes;

/* C (m, n) = A B + bias; bias has n elements or is GS_NONE. */
gs_status gs_cl_gemm(gs_device *, gs_mem c, gs_mem a, gs_mem b, gs_mem bias, gs_cl_gemm_sizes);

/* Scratch for what a loss finds of each sample, 2 n floats: n losses, then n times 1 (correct) or 0; and their sum into
 * stats. cl/stats.c. */
gs_status gs_cl_stats_part(gs_device *, size_t n, gs_mem *part);
gs_status gs_cl_stats_add(gs_device *, gs_mem stats, gs_mem part, size_t n);

#endif
