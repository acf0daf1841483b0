/* The OpenCL backend: kernels in files, and short host functions that enqueue them.
 *
 *     platforms.c  lists platforms and devices; pocl.c: what PoCL needs
 *     open.c       opens devices, or parts of them, by name; the table of functions
 *     program.c    finds a kernel's file, has it built once per open device, and runs it
 *     build.c      compiles a program, or loads it from the user's cache directory
 *     memory.c     buffers, and the scratch memory that operators share
 *     offload.c    host memory that extends the device's (--offload)
 *     tiles.c      tile sizes; error.c: OpenCL's error codes by name
 *     NAME.c       operator NAME, with the kernels of NAME.cl (element_wise.c, losses.c, optimizers.c: several)
 *
 * Operators enqueue their kernels and return. The queue is in order, so each kernel sees what earlier ones wrote. Only
 * one thread at a time uses a device, so its data need no locks.
 *
 * A kernel that is fast on a GPU is slow on a CPU, and vice versa. Where that matters, a .cl file contains both
 * variants, and the macros GS_GPU and GS_VECTOR select one at build time (see gs_cl). */
#pragma once

#include <CL/cl.h>
#include <CL/cl_ext.h>
#include <sched.h>
#include "operators.h"

/* Sizes on which the host and the kernels must agree. Kernels are built with macros of the same names (build.c). */
enum {
    GS_LANES = 32,      /* GPU: work-items that share a row of a plane (common.clh) */
    GS_DOT_COLUMNS = 4, /* CPU: columns of the "dot" tile (tile.clh); the other sizes are in gs_cl_tiles */
    GS_STAGES = 4,      /* uploads that may be in flight (memory.c) */
    GS_PACK = 256,      /* terms of a product's sum that form a block (cpu/plain/linear.c) */
    GS_SUM_ITEMS = 64   /* work-items that sum up a loss (stats.cl) */
};

/* The tile shapes of products and convolutions: defaults by kind of device, or set by GRADSUM_CL_TILES, whose keywords
 * are quoted here. See cl/tiles.c. */
typedef struct gs_cl_tiles {
    /* "gpu": kernels in GPU style: neighbouring work-items read neighbouring addresses, and tiles use __local memory.
     * "cpu": each work-item computes a tile of vectors in registers. */
    bool gpu;
    int vector;   /* cpu: floats in a vector register: 4, 8 or 16; GS_VECTOR in the kernels */
    int rows;     /* cpu: rows of the "broadcast" tile, 1 to 16; GS_ROWS */
    int dot_rows; /* cpu: rows of the "dot" tile, 1 to 8; GS_DOT_ROWS */
    int unroll;   /* cpu: how many steps of the inner loop are unrolled, 1 to 8; GS_UNROLL */
    int pack;     /* cpu: A is copied in tiles if each element serves at least this many FLOPs (gemm.c) */
    int tile;     /* gpu: a work-group computes tile x tile elements: 32, 64 or 128; GS_TILE ... */
    int each;     /* ... and each work-item each x each of them: 4 or 8; GS_EACH */
    int step;     /* gpu: how many values of k are in local memory at a time: 8, 16 or 32; GS_STEP */
} gs_cl_tiles;

/* Work-items in a work-group that computes a tile; GS_GROUP in the kernels. */
static inline size_t gs_cl_group(const gs_cl_tiles *t) {
    return (size_t)(t->tile / t->each) * (size_t)(t->tile / t->each);
}

/* Rows of the lower "broadcast" tile, for matrices that fit it better; GS_ROWS_LOW in the kernels. */
static inline int gs_cl_rows_low(const gs_cl_tiles *t) {
    return t->rows > 1 ? t->rows * 3 / 4 : 1;
}

/* Parse a text such as "cpu vector=16 rows=8 dot_rows=6 unroll=1 pack=1200" or "gpu tile=64 each=4 step=16"; sizes that
 * the text does not name are left unchanged. "cpu4", "cpu8" and "cpu16" set that vector width and its default sizes.
 * Returns false if the text has another form or a number is not allowed. */
bool gs_cl_tiles_parse(const char *text, gs_cl_tiles *);
/* The default sizes; `vector` is in floats. */
gs_cl_tiles gs_cl_tiles_default(bool gpu, int vector);

/* Scratch memory that carries data between an operator's kernels. Each use has one buffer, which grows to the largest
 * request and is freed with the device. */
typedef enum gs_cl_scratch_use {
    GS_CL_SCRATCH_X,       /* images in the layout that a convolution reads */
    GS_CL_SCRATCH_DY,      /* gradients in that layout */
    GS_CL_SCRATCH_W,       /* weights in another order */
    GS_CL_SCRATCH_PARTIAL, /* partial sums */
    GS_CL_SCRATCH_TILES,   /* tiles of a product's operands */
    GS_CL_SCRATCH_PASSED,  /* dy masked by a relu */
    GS_CL_SCRATCH_ROUNDED, /* copies of inputs (round16.h) */
    GS_CL_SCRATCH_FLOATS,  /* outputs before they are rounded to 16 bits */
    GS_CL_SCRATCH_SUMS,    /* sums that wait for their left neighbours (linear_tree.c) */
    GS_CL_SCRATCHES
} gs_cl_scratch_use;

/* Data being copied from the host to the device, so that gs_cl_write need not wait for the previous step. */
typedef struct gs_cl_staging {
    void *bytes;
    size_t size;
    cl_event done; /* the copy has arrived on the device; NULL: this slot was never used */
} gs_cl_staging;

/* Values derived from a convolution's sizes, computed once for each set of sizes (conv2d_common.h). */
typedef struct gs_cl_table {
    gs_conv2d_sizes sizes;
    gs_mem table;
} gs_cl_table;

/* Host memory that the device can copy fast, and a copy in progress (offload.c). */
enum { GS_CL_COPIES = 64 };
typedef struct gs_cl_offloaded {
    void *host;
    cl_mem buffer; /* NULL: ordinary memory */
} gs_cl_offloaded;
typedef struct gs_cl_transfer {
    cl_event done;  /* NULL: no copy, or one known to be done */
    size_t fetched; /* bytes fetched by this copy */
    gs_offload_watcher watch;
    gs_offload_transfer move; /* for the watcher when done; until then, `start` is when it was enqueued */
} gs_cl_transfer;

/* What device->state points to. */
typedef struct gs_cl {
    cl_device_id id;
    bool part;  /* a sub-device, to be released */
    int number; /* unique among open devices (pocl.c) */
    cl_context context;
    cl_command_queue queue;

    gs_cl_tiles tiles;
    size_t max_alloc; /* largest size of one buffer, in bytes */
    size_t units;     /* cores of a CPU */

    /* Names and versions of the platform, device and driver: part of the key of every cache entry. */
    char identity[600];

    struct gs_cl_program *programs; /* built so far */
    struct gs_cl_kernel *kernels;   /* used so far */
    size_t program_count, program_room, kernel_count, kernel_room;
    unsigned long enqueued; /* kernels enqueued so far */
    gs_mem next;            /* the counter of gs_cl_run_tasks, on the device ... */
    cl_uint taken;          /* ... and its value once everything enqueued so far is done */

    gs_cl_staging staging[GS_STAGES]; /* used in rotation */
    unsigned long writes;             /* so far */
    cl_event reading;                 /* the pending gs_cl_read_begin; NULL: none */

    /* offload.c */
    cl_command_queue copies;    /* runs alongside `queue`; NULL: not created yet */
    gs_cl_offloaded *offloaded; /* `offloaded_count` of them; freed entries have no host memory */
    size_t offloaded_count, offloaded_room;
    gs_cl_transfer copy[GS_CL_COPIES]; /* copy n is at n % GS_CL_COPIES */
    uint64_t copied;                   /* copies so far */

    gs_cl_table *tables; /* created so far */
    size_t table_count, table_room;

    gs_mem scratch[GS_CL_SCRATCHES];
    size_t scratch_count[GS_CL_SCRATCHES]; /* floats in each */
} gs_cl;

static inline gs_cl *gs_cl_of(gs_device *device) {
    return (gs_cl *)device->state;
}

/* A thread holds this lock while it opens, closes or lists devices, or compiles. Without it, workers that open their
 * devices at the same time would collide in OpenCL's first call, which sets up everything (PoCL 3.1 then crashes). */
void gs_cl_lock(void);
void gs_cl_unlock(void); /* both: platforms.c */

/* ---- errors ---- */

/* GS_OK for CL_SUCCESS, GS_E_MEMORY if memory ran out, else GS_E_OPENCL; the message is "WHAT: NAME (number)". */
gs_status gs_cl_check(cl_int error, const char *format, ...) GS_PRINTF(2, 3);

/* ---- running kernels ---- */

/* The number of work-items: groups x local in each of three dimensions. */
typedef struct gs_cl_grid {
    size_t groups[3], local[3];
} gs_cl_grid;

/* At least `items` work-items in one dimension, in groups of `local`. Kernels do nothing in surplus work-items. */
gs_cl_grid gs_cl_items(size_t items, size_t local);

/* `groups` work-groups: of GS_SUM_ITEMS work-items each on a GPU, of one work-item each on a CPU. */
gs_cl_grid gs_cl_groups(gs_device *, size_t groups);

/* A kernel that sums each row in lanes (sums.clh): 32 work-items share a row on a GPU; one sums it on a CPU. */
gs_cl_grid gs_cl_rows(gs_device *, size_t rows);

/* The grid with `rows` rows in its second dimension, but at most 65535, NVIDIA's limit: the kernel loops over any
 * further rows. */
gs_cl_grid gs_cl_with_rows(gs_cl_grid, size_t rows);

/* The number of parts of size `each` that cover `count`. */
static inline size_t gs_cl_parts(size_t count, size_t each) {
    return (count + each - 1) / each;
}

/* The grid of an element-wise kernel over `count` elements (GS_FIRST in common.clh). */
gs_cl_grid gs_cl_elements(gs_device *, size_t count);

/* The grid of a kernel over `planes` planes of `rows` rows each (GS_PLANE and GS_ROW in common.clh). */
gs_cl_grid gs_cl_planes(gs_device *, size_t planes, size_t rows);

/* One kernel argument: `size` bytes at `bytes`, or at `value` if `bytes` is NULL. A gs_mem becomes two arguments: the
 * buffer, and `at` as a ulong, counted in elements (16-bit ones if the memory is half). */
typedef struct gs_cl_arg {
    size_t size;
    const void *bytes;
    union {
        cl_mem buffer;
        cl_int i;
        cl_ulong u;
        cl_float f;
    } value;
    bool has_at;
    cl_ulong at;
} gs_cl_arg;

static inline gs_cl_arg gs_cl_arg_made(gs_cl_arg a) {
    return a;
}
static inline gs_cl_arg gs_cl_arg_mem(gs_mem m) {
    return (gs_cl_arg){sizeof(cl_mem), NULL, {.buffer = m.base}, true, m.half ? 2 * m.at : m.at};
}
static inline gs_cl_arg gs_cl_arg_int(int i) {
    return (gs_cl_arg){sizeof i, NULL, {.i = i}, false, 0};
}
static inline gs_cl_arg gs_cl_arg_ulong(uint64_t u) {
    return (gs_cl_arg){sizeof u, NULL, {.u = u}, false, 0};
}
static inline gs_cl_arg gs_cl_arg_float(float f) {
    return (gs_cl_arg){sizeof f, NULL, {.f = f}, false, 0};
}

/* Make an argument from a gs_mem, int, float, size_t or uint64_t (the last two are ulong in the kernel), or pass on one
 * made by GS_ARG_BUFFER or GS_ARG_STRUCT. */
#define GS_ARG(x)                                                                                            \
    _Generic((x), gs_cl_arg                                                                                  \
             : gs_cl_arg_made, gs_mem                                                                        \
             : gs_cl_arg_mem, int                                                                            \
             : gs_cl_arg_int, float                                                                          \
             : gs_cl_arg_float, unsigned                                                                     \
             : gs_cl_arg_ulong, unsigned long                                                                \
             : gs_cl_arg_ulong, unsigned long long                                                           \
             : gs_cl_arg_ulong)(x)
/* Only the buffer, without an offset: for a kernel that reads it from the start. */
#define GS_ARG_BUFFER(m) ((gs_cl_arg){sizeof(cl_mem), NULL, {.buffer = (m).base}, false, 0})
/* A struct passed by value; the kernel's file declares the same members in the same order. */
#define GS_ARG_STRUCT(s) ((gs_cl_arg){.size = sizeof(s), .bytes = &(s)})

/* Enqueue kernel `name` of cl/FILE.cl, which is found and built on first use; `bf16/FILE` and similar names select a
 * build for 16-bit memory (stored.clh). An empty grid does nothing. On a CPU, work-groups of one work-item are merged
 * (join_groups in program.c). GS_E_FILE: there is no such file. GS_E_OPENCL: the file does not compile (the compiler's
 * log goes to standard error), or a call failed. */
gs_status gs_cl_run(gs_device *, const char *file, const char *name, gs_cl_grid, const gs_cl_arg *args,
                    int count);

/* On a CPU: run a kernel whose last parameters are GS_TASKS (common.clh), which `args` does not contain. The tasks are
 * shared by `groups` work-groups, each with one work-item; gs_cl_takers returns how many groups are enough. */
gs_status gs_cl_run_tasks(gs_device *, const char *file, const char *name, size_t groups, size_t tasks,
                          const gs_cl_arg *args, int count);

/* One work-group per core, or per task if there are fewer tasks. */
static inline size_t gs_cl_takers(gs_device *d, size_t tasks) {
    size_t units = gs_cl_of(d)->units;
    return units < tasks ? units : tasks;
}

/* gs_cl_run with up to 12 arguments, in order: GS_CL_RUN(device, "relu", "relu_forward", grid, y, x, count) */
#define GS_CL_RUN(device, file, name, grid, ...)                                                             \
    gs_cl_run(device, file, name, grid, (const gs_cl_arg[]){GS_ARGS(__VA_ARGS__)}, GS_ARG_COUNT(__VA_ARGS__))
#define GS_CL_RUN_TASKS(device, file, name, groups, tasks, ...)                                              \
    gs_cl_run_tasks(device, file, name, groups, tasks, (const gs_cl_arg[]){GS_ARGS(__VA_ARGS__)},            \
                    GS_ARG_COUNT(__VA_ARGS__))

/* Apply GS_ARG to each argument. */
#define GS_ARGS(...) GS_ARGS_OF(GS_ARG_COUNT(__VA_ARGS__))(__VA_ARGS__)
#define GS_ARG_COUNT(...) GS_ARG_13TH(__VA_ARGS__, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0)
#define GS_ARG_13TH(a, b, c, d, e, f, g, h, i, j, k, l, count, ...) count
#define GS_ARGS_OF(count) GS_ARGS_PASTE(count)
#define GS_ARGS_PASTE(count) GS_ARGS_##count
#define GS_ARGS_1(x) GS_ARG(x)
#define GS_ARGS_2(x, ...) GS_ARG(x), GS_ARGS_1(__VA_ARGS__)
#define GS_ARGS_3(x, ...) GS_ARG(x), GS_ARGS_2(__VA_ARGS__)
#define GS_ARGS_4(x, ...) GS_ARG(x), GS_ARGS_3(__VA_ARGS__)
#define GS_ARGS_5(x, ...) GS_ARG(x), GS_ARGS_4(__VA_ARGS__)
#define GS_ARGS_6(x, ...) GS_ARG(x), GS_ARGS_5(__VA_ARGS__)
#define GS_ARGS_7(x, ...) GS_ARG(x), GS_ARGS_6(__VA_ARGS__)
#define GS_ARGS_8(x, ...) GS_ARG(x), GS_ARGS_7(__VA_ARGS__)
#define GS_ARGS_9(x, ...) GS_ARG(x), GS_ARGS_8(__VA_ARGS__)
#define GS_ARGS_10(x, ...) GS_ARG(x), GS_ARGS_9(__VA_ARGS__)
#define GS_ARGS_11(x, ...) GS_ARG(x), GS_ARGS_10(__VA_ARGS__)
#define GS_ARGS_12(x, ...) GS_ARG(x), GS_ARGS_11(__VA_ARGS__)

/* Compile a program, with correctly rounded quotients if `exact`, or load it from the cache. `file` is its base name,
 * for messages. GS_E_OPENCL: the program does not compile (the compiler's log goes to standard error), or a call
 * failed. cl/build.c. */
gs_status gs_cl_build(const gs_cl *, bool exact, const char *file, const char *source, cl_program *out);

/* The program with the kernels of cl/FILE.cl, built if necessary and owned by the device. Fails like gs_cl_run. */
gs_status gs_cl_program(gs_device *, const char *file, cl_program *out);

void gs_cl_programs_free(gs_cl *);

/* ---- memory ---- */

/* *out = the scratch buffer for `use`, grown to at least `count` floats. Its content is undefined. */
gs_status gs_cl_scratch(gs_device *, gs_cl_scratch_use use, size_t count, gs_mem *out);

/* The memory functions and the operators: see src/backend.h. */
#define GS_DECLARE(name) GS_OPERATOR(name) gs_cl_##name;
GS_MEMORY_FUNCTIONS(GS_DECLARE)
GS_OPERATORS(GS_DECLARE)
#undef GS_DECLARE
gs_status gs_cl_read_begin(gs_device *, void *to, gs_mem from, size_t bytes);
gs_status gs_cl_read_end(gs_device *);
void gs_cl_offload_close(gs_device *); /* frees offload.c's resources */
gs_status gs_cl_narrow(gs_device *, gs_mem to, gs_mem x, size_t count, bool relu); /* round16.c */

/* ---- operators ---- */

/* C = A B and its variants: cl/gemm.c. */
typedef struct gs_cl_gemm_sizes {
    cl_ulong m, n, k, a_row, a_col, b_row,
        b_col;            /* A(i, k) = a[i a_row + k a_col], B(k, j) = b[k b_row + j b_col] */
    cl_int add, has_bias; /* add: C += A B; has_bias is set by gs_cl_gemm */
    cl_int relu;          /* C = max(A B + bias, 0); not together with add */
    cl_int in_16_bits;    /* set by gs_cl_gemm: C is stored in 16 bits; not together with add */
    cl_int leaves, each, leaf_end[GS_LEAVES]; /* gs_cl_cut_into_leaves */
} gs_cl_gemm_sizes;

/* C (m, n) = A B + bias; bias has n elements or is GS_NONE. */
gs_status gs_cl_gemm(gs_device *, gs_mem c, gs_mem a, gs_mem b, gs_mem bias, gs_cl_gemm_sizes);

/* Two independent products without bias. On a CPU they run as one kernel, so that no core waits between them. Pass the
 * product with the larger tasks first: small tasks fill the gaps at the end. */
typedef struct gs_cl_product {
    gs_mem c, a, b;
    gs_cl_gemm_sizes s;
} gs_cl_product;
gs_status gs_cl_gemm_pair(gs_device *, gs_cl_product, gs_cl_product);
/* C = A B, where the terms of the sums are samples in leaves (gs_epilogue). gs_cl_cut_into_leaves makes it one launch
 * of gs_cl_gemm, or returns false: on a GPU, and if a leaf has more than GS_PACK terms, use gs_cl_linear_leaves. */
bool gs_cl_cut_into_leaves(gs_device *, gs_cl_gemm_sizes *, const gs_leaves *);
gs_status gs_cl_linear_leaves(gs_device *, const gs_cl_product *, const gs_leaves *);

/* ---- what OpenCL reports about its platforms and devices: platforms.c, pocl.c ---- */

/* True if `mine` contains all of the machine's cores, 0 .. online - 1. */
bool gs_cl_has_all_cores(const cpu_set_t *mine, long online);

enum { GS_CL_MOST = 64 /* limit on platforms, and on devices per platform */ };

/* The ids of all platforms. *count may be 0: a missing OpenCL is not an error. */
gs_status gs_cl_platforms(cl_platform_id out[GS_CL_MOST], cl_uint *count);

/* The devices of one platform; `number` is the platform's number, for messages. */
gs_status gs_cl_devices_of(cl_platform_id, int number, cl_device_id out[GS_CL_MOST], cl_uint *count);

/* GS_E_FILE: the platform is PoCL, and it has no folder for its compiled kernels (gs_cl_choose_cache). */
gs_status gs_cl_check_cache(cl_platform_id);

/* The smallest number, counting from 0, that no open device has. Once all numbers are taken, further devices share the
 * last one. Call both functions between gs_cl_lock and gs_cl_unlock. pocl.c explains why devices have numbers. */
enum { GS_CL_NUMBERS = 64 };
int gs_cl_take_number(void);
void gs_cl_give_number_back(int);

/* The compiler option that gives the device with that number its own kernels; "" where none is needed. */
void gs_cl_copy_option(const char *identity, int number, char *option, size_t size);

/* A text property from OpenCL, cut to `size` bytes; "" if there is none. */
void gs_cl_device_text(cl_device_id, cl_device_info what, char *text, size_t size);
void gs_cl_platform_text(cl_platform_id, cl_platform_info what, char *text, size_t size);

/* A numeric property of any type from OpenCL; 0 if there is none. */
cl_ulong gs_cl_device_number(cl_device_id, cl_device_info what);

/* The number of equal parts into which a device can be split: one per compute unit, or 0. */
int gs_cl_most_parts(cl_device_id);
