/* An open device, and what to do before the first is opened: gradsum.h lists and opens them. What a device can compute
 * is in backend.h.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "core/ledger.h"
#include "gradsum.h"

typedef struct gs_backend gs_backend;

/* What the products of linear, conv2d and attention are made of. In 16 bits their inputs are rounded, to the nearest,
 * before they are multiplied; sums stay f32. So is what backward of other operators reads of forward (backend.h). A
 * backend that can stores activations and their gradients so, too (layer/memory/half_storage.h). All
 * else in memory stays f32. The precision is set before a model is bound to the device. */
typedef enum gs_precision {
    GS_PRECISION_F32,
    GS_PRECISION_BF16,
    GS_PRECISION_F16,
    GS_PRECISIONS
} gs_precision;

/* What may lie outside of a device's memory: bits of gs_device.offload. */
typedef enum gs_offload {
    GS_OFFLOAD_OPTIMIZER = 1,   /* the optimiser's vectors */
    GS_OFFLOAD_ACTIVATIONS = 2, /* y of the layers, from forward to backward */
    GS_OFFLOAD_WEIGHTS = 4,
    GS_OFFLOADS = 7 /* all of them */
} gs_offload;

/* Something that was fetched or offloaded: by gs_seconds(). */
typedef struct gs_offload_transfer {
    double start, end;
    size_t bytes;
    int kind; /* what it is used for: a gs_memory_kind */
    bool fetched;
} gs_offload_transfer;

/* Called when the copy is known to be done: in the thread that copies (cpu/offload.c), with an OpenCL
 * device in the worker's. `step` is that in which the copy was asked for. moved NULL: nobody watches. */
typedef struct gs_offload_watcher {
    void (*moved)(void *context, uint64_t step, const gs_offload_transfer *);
    void *context;
    uint64_t step;
} gs_offload_watcher;

/* What that cost: seconds in which something was fetched or written back, and in which the worker waited for it; and
 * the bytes that were fetched. */
typedef struct gs_offload_times {
    double busy, waited, bytes;
} gs_offload_times;

/* The share that was hidden behind the worker's own work: 1 - waited / busy. */
static inline double gs_offload_hidden(gs_offload_times t) {
    return t.waited < t.busy ? 1 - t.waited / t.busy : 0;
}

/* An open device. Each worker opens its own. */
struct gs_device {
    const gs_backend *ops;
    char name[48];          /* what was asked for: "cpu", "cl:0.0", "cl:0.0/1of2" */
    char description[160];  /* for people: "AMD EPYC, 2 threads, OpenBLAS SkylakeX" */
    gs_precision precision; /* of the products; f32 unless the caller sets another */
    bool fixed_order;       /* inference: forward gives the same bits for any number of threads */
    gs_ledger memory;       /* what is allocated, by kind: by the backend, and on the host by the worker */
    gs_memory_kind kind;    /* of what is allocated next (gs_alloc) */
    size_t max_alloc;       /* bytes that one allocation may have; 0: no limit */
    bool dry;               /* gs_device_set_dry */
    bool no_fusion;   /* no layer does the work of those after it (layer/sequential.c): a record has all y */
    unsigned offload; /* what lies outside of its memory (backend.h: alloc_offloaded); 0: nothing */
    const char *offload_folder;         /* for the files of cpu (io/mapped.h); NULL: the usual one */
    gs_offload_times offload_times;     /* so far */
    gs_offload_watcher offload_watcher; /* called for what is fetched and offloaded next */
    void *state;                        /* the backend's own */
};

/* A dry run: from here on this device computes nothing. Whatever is allocated is booked in the ledger as always, but
 * takes no memory; what is read from the device is 0. So the calls of a run show what memory the run would take. Before
 * anything is allocated on the device. */
void gs_device_set_dry(gs_device *);

/* The decision of gs_cpu_choose_kernels alone: a better OPENBLAS_CORETYPE than `chosen` for this machine, or NULL. */
const char *gs_cpu_better_kernels(const char *chosen, bool avx512);
bool gs_cpu_has_avx512(void);
/* How many threads this process has cores for, by its affinity and its quota of time; at least 1. */
int gs_cpu_cores(void);

/* Set PoCL's environment variables, where they are not set yet, to what suits us best. Call this too at the
 * beginning of main(); without it everything works, but more slowly.
 *   POCL_WORK_GROUP_SPECIALIZATION=0
 *       Otherwise PoCL compiles a kernel anew for each work-group size it meets. One version for all sizes is as fast
 *       here, and the binary that is kept for the next run is complete.
 *   POCL_AFFINITY=1
 *       Thread i stays on core i. PoCL's threads sleep after each kernel, and Linux tends to wake two of them on one
 *       core while another is idle. Only if this process is `alone` (not one of several of a run) and may use all
 *       cores. */
void gs_cl_choose_settings(bool alone);

/* Make sure that PoCL can write its compiled kernels: call this at the beginning of main(), before any thread is
 * started. If its folder (POCL_CACHE_DIR, else one in XDG_CACHE_HOME or HOME) cannot be written to or has no 8 MB free,
 * or if POCL_CACHE_DIR is empty, POCL_CACHE_DIR becomes a new folder in TMPDIR, which is removed when this process
 * ends in order. Such folders of this user that killed processes have left are removed then too. Where there can be no
 * new folder, opening a device of PoCL is GS_E_FILE and says why. */
void gs_cl_choose_cache(void);

/* Devices "cpu" that are opened later get a copy of their table in which `edit` has put functions of the caller's;
 * NULL: the library's own again. `edit` sees the library's own table, even when it is not the first. To try an operator
 * in the running framework (lessons/): call it before any other thread is started. Where `edit` replaces an operator
 * that takes part in an epilogue (linear, conv2d, relu, max_pool2d), `fuses` says no to all of them: each layer calls
 * its own operator, and `then` is always empty. */
void gs_backend_replace(void (*edit)(gs_backend *));

/* An `edit` for it: the plain loops, which cpu/plain/plain.h explains. */
void gs_cpu_plain(gs_backend *);

/* The entry points of the two backends, only for device.c. */
gs_status gs_cpu_open(gs_device *device, int threads);
gs_status gs_cpu_info(gs_device_info *info);
gs_status gs_cl_open(gs_device *device); /* device->name says which */
/* What an allocation is in a dry run: addresses without memory behind them, which read as 0. NULL: there are none. */
void *gs_dry_alloc(size_t bytes);
void gs_dry_free(void *memory, size_t bytes);
/* What is read in a dry run: so few bytes are 0, and more are not touched. */
enum { GS_DRY_READ = 1024 };
static inline void gs_dry_read(void *to, size_t bytes) {
    if (bytes <= GS_DRY_READ) memset(to, 0, bytes);
}
void gs_cpu_set_dry(gs_device *);

/* Memory of the host beside a device's. In a dry run nothing need be behind it, and it is not touched. It is freed with
 * free; NULL: there is none. */
void *gs_host_malloc(const gs_device *, size_t bytes);
static inline void gs_host_copy(const gs_device *d, void *to, const void *from, size_t bytes) {
    if (bytes > 0 && !d->dry) memcpy(to, from, bytes);
}
static inline void gs_host_add(const gs_device *d, float *sum, const float *x, size_t count) {
    if (d->dry) return;
    for (size_t i = 0; i < count; i++) sum[i] += x[i];
}

gs_status gs_cl_list(gs_device_info **out, int *count, const char **problem);
