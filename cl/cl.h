/* The OpenCL backend: kernels in files, and short host functions that enqueue them.
 *
 *     platforms.c  what platforms and devices there are; pocl.c: what PoCL needs
 *     open.c       devices and their parts by name; the table of functions
 *     program.c    finds a kernel's file, has it built once for each open device, and runs it
 *     build.c      compiles a program, or takes it from the user's cache directory
 *     memory.c     buffers, and the scratch memory that operators share
 *     offload.c    memory of the host beside that of the device (--offload)
 *     tiles.c      the sizes of tiles; error.c: OpenCL's error codes by name
 *     NAME.c       the operator NAME: enqueues kernels of NAME.cl; element_wise.c, losses.c, optimizers.c: several
 *
 * Operators enqueue and return. The queue is in order, so each kernel sees what the one before it wrote. One thread at
 * a time uses a device, so nothing that belongs to it is locked.
 *
 * A kernel that is fast on a GPU is slow on a CPU, and vice versa. Where that matters a .cl file holds both, and the
 * macros GS_GPU and GS_VECTOR, set when it is built, select one (see gs_cl). */
#pragma once

#include <CL/cl.h>
#include <CL/cl_ext.h>
#include <sched.h>
#include "backend.h"
#include "operators.h"

/* Sizes that host and kernels must agree on. Kernels are built with macros of the same names (build.c). */
enum {
    GS_LANES = 32,      /* GPU: work-items that share a row of a plane (common.clh) */
    GS_DOT_COLUMNS = 4, /* CPU: columns of the "dot" tile (tile.clh); the other sizes are in gs_cl_tiles */
    GS_STAGES = 4,      /* writes that may be on their way (memory.c) */
    GS_PACK = 256,      /* CPU: how many k of a product's sides are copied at a time (gemm.cl) */
    GS_SUM_ITEMS = 64   /* work-items that sum up a loss (stats.cl) */
};

/* The shapes of the tiles of products and convolutions: defaults by the kind of device, or GRADSUM_CL_TILES, whose
 * words are in quotes here. cl/tiles.c. */
typedef struct gs_cl_tiles {
    /* "gpu": kernels in GPU style: neighbouring work-items read neighbouring addresses, tiles lie in __local memory.
     * "cpu": one work-item computes a tile of vectors in its registers. */
    bool gpu;
    int vector;   /* cpu: floats in a vector register: 4, 8 or 16; GS_VECTOR in the kernels */
    int rows;     /* cpu: rows of the "broadcast" tile, 1 to 16; GS_ROWS */
    int dot_rows; /* cpu: rows of the "dot" tile, 1 to 8; GS_DOT_ROWS */
    int unroll;   /* cpu: steps of the inner loop that are written out, 1 to 8; GS_UNROLL */
    int pack;     /* cpu: FLOPs for each element of A from which on A is copied, tile by tile (gemm.c) */
    int tile;     /* gpu: a work-group computes tile x tile elements: 32, 64 or 128; GS_TILE ... */
    int each;     /* ... and a work-item of it each x each: 4 or 8; GS_EACH */
    int step;     /* gpu: how many k are in local memory at a time: 8, 16 or 32; GS_STEP */
} gs_cl_tiles;

/* Work-items of a work-group that computes a tile; GS_GROUP in the kernels. */
static inline size_t gs_cl_group(const gs_cl_tiles *t) {
    return (size_t)(t->tile / t->each) * (size_t)(t->tile / t->each);
}

/* Rows of the lower "broadcast" tile, for matrices that it fits better; GS_ROWS_LOW in the kernels. */
static inline int gs_cl_rows_low(const gs_cl_tiles *t) {
    return t->rows > 1 ? t->rows * 3 / 4 : 1;
}

/* From a text, "cpu vector=16 rows=8 dot_rows=6 unroll=1 pack=1200" or "gpu tile=64 each=4 step=16"; sizes that it does
 * not name are unchanged. "cpu4", "cpu8", "cpu16": that vector, and the default sizes for it. false: not such a text,
 * or a number that is not allowed. */
bool gs_cl_tiles_parse(const char *text, gs_cl_tiles *);
/* The defaults for a vector of that many floats. */
gs_cl_tiles gs_cl_tiles_default(bool gpu, int vector);

/* Memory that operators use between two of their kernels. Each is one buffer that grows to the largest need and is
 * freed with the device. */
typedef enum gs_cl_scratch_use {
    GS_CL_SCRATCH_X,       /* images as a convolution sees them */
    GS_CL_SCRATCH_DY,      /* gradients with theirs */
    GS_CL_SCRATCH_W,       /* weights in another order */
    GS_CL_SCRATCH_PARTIAL, /* partial sums */
    GS_CL_SCRATCH_TILES,   /* the tiles of a product's two sides */
    GS_CL_SCRATCH_PASSED,  /* what of dy passes a relu */
    GS_CL_SCRATCH_ROUNDED, /* copies of inputs (round16.h) */
    GS_CL_SCRATCH_FLOATS,  /* outputs before they are rounded to 16 bits */
    GS_CL_SCRATCHES
} gs_cl_scratch_use;

/* A copy of data from the host on its way to the device, so that gs_cl_write need not wait for the step before. */
typedef struct gs_cl_staging {
    void *bytes;
    size_t size;
    cl_event done; /* the copy is on the device; NULL: the place was never used */
} gs_cl_staging;

/* Numbers that follow from the sizes of a convolution, made once for each (conv2d_common.h). */
typedef struct gs_cl_table {
    gs_conv2d_sizes sizes;
    gs_mem table;
} gs_cl_table;

/* Host memory that the device can copy fast (offload.c), and a copy on its way. */
enum { GS_CL_COPIES = 64 };
typedef struct gs_cl_offloaded {
    void *host;
    cl_mem buffer; /* NULL: ordinary memory */
} gs_cl_offloaded;
typedef struct gs_cl_transfer {
    cl_event done;  /* NULL: none, or it is known to be done */
    size_t fetched; /* bytes that it fetches */
    gs_offload_watcher watch;
    gs_offload_transfer move; /* what watch is told, when it is done; start: when it was enqueued */
} gs_cl_transfer;

/* What device->state points to. */
typedef struct gs_cl {
    cl_device_id id;
    bool part;  /* a sub-device, to be released */
    int number; /* that no other open device has (pocl.c) */
    cl_context context;
    cl_command_queue queue;

    gs_cl_tiles tiles;
    size_t max_alloc; /* bytes that one buffer may have */
    size_t units;     /* cores of a CPU */

    /* Names and versions of platform, device and driver: what is kept in the user's cache directory is for these. */
    char identity[600];

    struct gs_cl_program *programs; /* built so far */
    struct gs_cl_kernel *kernels;   /* used so far */
    size_t program_count, program_room, kernel_count, kernel_room;
    unsigned long enqueued; /* kernels so far */
    gs_mem next;            /* the counter of gs_cl_run_tasks, on the device ... */
    cl_uint taken;          /* ... and what it will be when all is done that was enqueued */

    gs_cl_staging staging[GS_STAGES]; /* used in turn */
    unsigned long writes;             /* so far */
    cl_event reading;                 /* by gs_cl_read_begin; NULL: nothing */

    /* offload.c */
    cl_command_queue copies;    /* runs beside `queue`; NULL: there is none yet */
    gs_cl_offloaded *offloaded; /* `offloaded_count` of them; one that was freed has no host memory */
    size_t offloaded_count, offloaded_room;
    gs_cl_transfer copy[GS_CL_COPIES]; /* number n is at n % GS_CL_COPIES */
    uint64_t copied;                   /* so far */

    gs_cl_table *tables; /* made so far */
    size_t table_count, table_room;

    gs_mem scratch[GS_CL_SCRATCHES];
    size_t scratch_count[GS_CL_SCRATCHES]; /* floats in each */
} gs_cl;

static inline gs_cl *gs_cl_of(gs_device *device) {
    return (gs_cl *)device->state;
}

/* Held while a thread opens, closes or lists devices, or compiles. Otherwise workers that open their devices at the
 * same time would meet inside OpenCL, whose first call sets up everything (PoCL 3.1 then crashes). */
void gs_cl_lock(void);
void gs_cl_unlock(void); /* both: platforms.c */

/* ---- errors ---- */

/* GS_OK for CL_SUCCESS, else GS_E_OPENCL, or GS_E_MEMORY without memory; the message is "WHAT: NAME (number)". */
gs_status gs_cl_check(cl_int error, const char *format, ...) GS_PRINTF(2, 3);

/* ---- running kernels ---- */

/* How many work-items: groups x local in each of three dimensions. */
typedef struct gs_cl_grid {
    size_t groups[3], local[3];
} gs_cl_grid;

/* At least `items` work-items in one dimension, in groups of `local`. In the kernel, those beyond `items` do
 * nothing. */
gs_cl_grid gs_cl_items(size_t items, size_t local);

/* One work-group for each of `groups` things, of GS_SUM_ITEMS work-items on a GPU and of one on a CPU. */
gs_cl_grid gs_cl_groups(gs_device *, size_t groups);

/* The grid with `rows` rows in its second dimension, or 65535, which is all that NVIDIA allows: a kernel loops over the
 * others. */
gs_cl_grid gs_cl_with_rows(gs_cl_grid, size_t rows);

/* How many parts of size `each` cover `count`. */
static inline size_t gs_cl_parts(size_t count, size_t each) {
    return (count + each - 1) / each;
}

/* The grid of an element-wise kernel on `count` elements (GS_FIRST in common.clh). */
gs_cl_grid gs_cl_elements(gs_device *, size_t count);

/* The grid of a kernel that goes through planes of that many rows (GS_PLANE and GS_ROW in common.clh). */
gs_cl_grid gs_cl_planes(gs_device *, size_t planes, size_t rows);

/* One argument of a kernel: `size` bytes at `bytes`, or at `value` if that is NULL. A gs_mem becomes two arguments: the
 * buffer, and `at` as a ulong, which counts numbers (of 16 bits where the memory is half). */
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

/* An argument from a gs_mem, int, float, size_t or uint64_t; the last two are ulong in the kernel. Or one that
 * GS_ARG_BUFFER or GS_ARG_STRUCT has made. */
#define GS_ARG(x)                                                                                            \
    _Generic((x), gs_cl_arg                                                                                  \
             : gs_cl_arg_made, gs_mem                                                                        \
             : gs_cl_arg_mem, int                                                                            \
             : gs_cl_arg_int, float                                                                          \
             : gs_cl_arg_float, unsigned                                                                     \
             : gs_cl_arg_ulong, unsigned long                                                                \
             : gs_cl_arg_ulong, unsigned long long                                                           \
             : gs_cl_arg_ulong)(x)
/* Only the buffer, for a kernel that reads it from its beginning. */
#define GS_ARG_BUFFER(m) ((gs_cl_arg){sizeof(cl_mem), NULL, {.buffer = (m).base}, false, 0})
/* A struct by value; the kernel's file declares the same members in the same order. */
#define GS_ARG_STRUCT(s) ((gs_cl_arg){.size = sizeof(s), .bytes = &(s)})

/* Enqueue kernel `name` of cl/FILE.cl, which is found and built at its first use; `bf16/FILE` and similar names: built
 * for memory of 16 bits (stored.clh). An empty grid does nothing. On a CPU, work-groups of one work-item are joined
 * (join_groups in program.c). GS_E_FILE: no such file. GS_E_OPENCL: it does not compile (the compiler's log goes to
 * standard error), or a call failed. */
gs_status gs_cl_run(gs_device *, const char *file, const char *name, gs_cl_grid, const gs_cl_arg *args,
                    int count);

/* On a CPU: run a kernel whose last parameters are GS_TASKS (common.clh), which are not in `args`. `groups` work-groups
 * of one work-item share the tasks; gs_cl_takers are enough. */
gs_status gs_cl_run_tasks(gs_device *, const char *file, const char *name, size_t groups, size_t tasks,
                          const gs_cl_arg *args, int count);

/* One for each core, unless there are fewer tasks. */
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

/* GS_ARG of each */
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

/* Compile a program for a device, or load it from the cache. `file`: its name without folders, for messages.
 * GS_E_OPENCL: it does not compile (the compiler's log goes to standard error), or a call failed. cl/build.c. */
gs_status gs_cl_build(const gs_cl *, const char *file, const char *source, cl_program *out);

/* The program with the kernels of cl/FILE.cl, built if necessary; it belongs to the device. Fails as gs_cl_run. */
gs_status gs_cl_program(gs_device *, const char *file, cl_program *out);

/* Release all programs and kernels of a device. */
void gs_cl_programs_free(gs_cl *);

/* ---- memory ---- */

/* *out = the scratch buffer for `use`, grown to at least `count` floats; its content is undefined. */
gs_status gs_cl_scratch(gs_device *, gs_cl_scratch_use use, size_t count, gs_mem *out);

/* These and the operators: see src/backend.h. */
#define GS_DECLARE(name) GS_OPERATOR(name) gs_cl_##name;
GS_MEMORY_FUNCTIONS(GS_DECLARE)
GS_OPERATORS(GS_DECLARE)
#undef GS_DECLARE
gs_status gs_cl_read_begin(gs_device *, void *to, gs_mem from, size_t bytes);
gs_status gs_cl_read_end(gs_device *);
void gs_cl_offload_close(gs_device *);                                             /* what offload.c keeps */
gs_status gs_cl_narrow(gs_device *, gs_mem to, gs_mem x, size_t count, bool relu); /* round16.c */

/* ---- operators ---- */

/* C = A B and its variants: cl/gemm.c. */
typedef struct gs_cl_gemm_sizes {
    cl_ulong m, n, k, a_row, a_col, b_row,
        b_col;            /* A(i, k) = a[i a_row + k a_col], B(k, j) = b[k b_row + j b_col] */
    cl_int add, has_bias; /* add: C += A B; has_bias is set by gs_cl_gemm */
    cl_int relu;          /* C = max(A B + bias, 0); not together with add */
    cl_int in_16_bits;    /* set by gs_cl_gemm: C lies in 16 bits; not together with add */
} gs_cl_gemm_sizes;

/* C (m, n) = A B + bias; bias has n elements or is GS_NONE. */
gs_status gs_cl_gemm(gs_device *, gs_mem c, gs_mem a, gs_mem b, gs_mem bias, gs_cl_gemm_sizes);

/* Two independent products without bias: on a CPU one kernel, which saves the cores a wait. The one with the larger
 * tasks should come first: small tasks fill up the end. */
typedef struct gs_cl_product {
    gs_mem c, a, b;
    gs_cl_gemm_sizes s;
} gs_cl_product;
gs_status gs_cl_gemm_pair(gs_device *, gs_cl_product, gs_cl_product);

/* ---- what OpenCL says of its platforms and devices: platforms.c, pocl.c ---- */

/* Does `mine` hold all cores of the machine, 0 .. online - 1? */
bool gs_cl_has_all_cores(const cpu_set_t *mine, long online);

enum { GS_CL_MOST = 64 /* platforms, and devices of one, that are looked at */ };

/* The ids of all platforms. *count may be 0: a missing OpenCL is not a failure. */
gs_status gs_cl_platforms(cl_platform_id out[GS_CL_MOST], cl_uint *count);

/* The devices of one platform; its number is for messages. */
gs_status gs_cl_devices_of(cl_platform_id, int number, cl_device_id out[GS_CL_MOST], cl_uint *count);

/* GS_E_FILE: the platform is PoCL, and has no folder for its compiled kernels (gs_cl_choose_cache). */
gs_status gs_cl_check_cache(cl_platform_id);

/* The smallest number, from 0, that no open device has; all devices beyond the last share the last one. Call it between
 * gs_cl_lock and gs_cl_unlock. pocl.c says why devices have numbers. */
enum { GS_CL_NUMBERS = 64 };
int gs_cl_take_number(void);
void gs_cl_give_number_back(int);

/* The compiler's option that gives the device of that number its own kernels; "" where that is unnecessary. */
void gs_cl_copy_option(const char *identity, int number, char *option, size_t size);

/* A text from OpenCL, cut to `size` bytes; "" if there is none. */
void gs_cl_device_text(cl_device_id, cl_device_info what, char *text, size_t size);
void gs_cl_platform_text(cl_platform_id, cl_platform_info what, char *text, size_t size);

/* A number of any type from OpenCL; 0 if there is none. */
cl_ulong gs_cl_device_number(cl_device_id, cl_device_info what);

/* Into how many equal parts a device can be split: one for each unit, or 0. */
int gs_cl_most_parts(cl_device_id);
