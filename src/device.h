/* An open device, and functions to call before opening the first one. gradsum.h lists and opens devices; backend.h
 * defines what they compute. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "core/ledger.h"
#include "gradsum.h"

typedef struct gs_backend gs_backend;

/* The precision of products in linear, conv2d and attention. In 16 bits their factors are rounded to nearest before the
 * multiplication; sums stay f32. In other operators, backward rounds those arrays of forward that it reads (backend.h).
 * If the backend can, it also stores activations and their gradients in 16 bits (layer/memory/half_storage.h).
 * Everything else stays f32. Set the precision before a model is bound to the device. */
typedef enum gs_precision {
    GS_PRECISION_F32,
    GS_PRECISION_BF16,
    GS_PRECISION_F16,
    GS_PRECISIONS
} gs_precision;

/* What may be stored outside a device's memory: bits of gs_device.offload. */
typedef enum gs_offload {
    GS_OFFLOAD_OPTIMIZER = 1,   /* the optimiser's vectors */
    GS_OFFLOAD_ACTIVATIONS = 2, /* the layers' y, between forward and backward */
    GS_OFFLOAD_WEIGHTS = 4,
    GS_OFFLOADS = 7 /* all of the above */
} gs_offload;

/* A finished fetch or offload; times are from gs_seconds(). */
typedef struct gs_offload_transfer {
    double start, end;
    size_t bytes;
    int kind; /* what the memory is for: a gs_memory_kind */
    bool fetched;
} gs_offload_transfer;

/* Called as soon as a copy is known to be done: by the copying thread (cpu/offload.c) or, for an OpenCL device, by the
 * worker. `step` is the step that requested the copy. moved may be NULL. */
typedef struct gs_offload_watcher {
    void (*moved)(void *context, uint64_t step, const gs_offload_transfer *);
    void *context;
    uint64_t step;
} gs_offload_watcher;

/* The cost of offloading: seconds during which something was fetched or written back, seconds that the worker waited,
 * and bytes fetched. */
typedef struct gs_offload_times {
    double busy, waited, bytes;
} gs_offload_times;

/* The share of the copying hidden behind the worker's own work: 1 - waited / busy. */
static inline double gs_offload_hidden(gs_offload_times t) {
    return t.waited < t.busy ? 1 - t.waited / t.busy : 0;
}

/* An open device. Each worker opens its own. */
struct gs_device {
    const gs_backend *ops;
    char name[48];          /* as requested: "cpu", "cl:0.0", "cl:0.0/1of2" */
    char description[160];  /* for people: "AMD EPYC, 2 threads, OpenBLAS SkylakeX" */
    gs_precision precision; /* of products; f32 unless the caller sets another precision */
    bool fixed_order;       /* each sum's order is the same for any number of threads */
    bool exact;             /* gs_device_set_exact */
    gs_ledger memory;       /* allocations by kind, recorded by the backend and, on the host, by the worker */
    gs_memory_kind kind;    /* kind of the next allocation (gs_alloc) */
    size_t max_alloc;       /* maximum bytes of one allocation; 0: no limit */
    bool dry;               /* gs_device_set_dry */
    bool no_fusion;         /* every layer runs separately (layer/sequential.c), so a record has each y */
    unsigned offload;       /* data to store outside its memory (backend.h: alloc_offloaded); 0: none */
    const char *offload_folder;         /* for the files that cpu maps (io/mapped.h); NULL: the default */
    gs_offload_times offload_times;     /* total so far */
    gs_offload_watcher offload_watcher; /* called for later fetches and offloads */
    void *state;                        /* the backend's own data */
};

/* Start a dry run: from now on this device computes nothing. The ledger records allocations as usual, but they use no
 * memory; reads return 0. A run's calls thus show how much memory it would need. Call this before any allocation. */
void gs_device_set_dry(gs_device *);

/* From now on this device's results have the bits that the plain loops define (cpu/plain/plain.h). It sets fixed_order,
 * and on a processor without fused multiply-adds software computes them. Call this before any operator. GS_E_DEVICE:
 * the device's arithmetic differs from IEEE 754, as found by a self-test of a few milliseconds (arithmetic.c). */
gs_status gs_device_set_exact(gs_device *);

/* What gs_cpu_choose_kernels decides: an OPENBLAS_CORETYPE that suits this machine better, or NULL. Sets nothing. */
const char *gs_cpu_better_kernels(const char *chosen, bool avx512);
bool gs_cpu_has_avx512(void);
/* The number of threads for which this process has cores, according to its affinity and CPU quota; at least 1. */
int gs_cpu_cores(void);

/* Set PoCL's environment variables, unless they are already set, to what suits gradsum best. Call this too at the
 * beginning of main(); without it everything works, but more slowly.
 *   POCL_WORK_GROUP_SPECIALIZATION=0
 *       Otherwise PoCL compiles a kernel again for each work-group size it meets. One version for all sizes is as fast
 *       here, and the binary that is kept for the next run is complete.
 *   POCL_AFFINITY=1
 *       Thread i stays on core i. PoCL's threads sleep after each kernel, and Linux tends to wake two of them on one
 *       core while another is idle. Set only if this process is `alone` in its run and may use all cores. */
void gs_cl_choose_settings(bool alone);

/* Make sure that PoCL can write its compiled kernels. Call this at the beginning of main(), before any thread is
 * started. If PoCL's folder (POCL_CACHE_DIR, else one in XDG_CACHE_HOME or HOME) is not writable or has no 8 MB free,
 * or if POCL_CACHE_DIR is empty, POCL_CACHE_DIR is set to a new folder in TMPDIR. A normal exit removes that folder,
 * and a later call removes the folders left by this user's killed processes. If no folder can be made, opening a PoCL
 * device fails with GS_E_FILE and says why. */
void gs_cl_choose_cache(void);

/* "cpu" devices opened from now on use a copy of the library's table in which `edit` has replaced functions; NULL
 * restores the original. `edit` always receives the library's own table. This is for trying an operator in the running
 * framework (lessons/); call it before any other thread is started. If `edit` replaces an operator that epilogues
 * involve (linear, conv2d, relu, max_pool2d), `fuses` rejects every epilogue, so that each layer calls its own
 * operator, and `then` is always empty. */
void gs_backend_replace(void (*edit)(gs_backend *));

/* An `edit` that installs the plain loops of cpu/plain/plain.h. */
void gs_cpu_plain(gs_backend *);

/* The entry points of the two backends; only for device.c. */
gs_status gs_cpu_open(gs_device *device, int threads);
gs_status gs_cpu_info(gs_device_info *info);
gs_status gs_cl_open(gs_device *device); /* device->name names the device to open */
/* An allocation in a dry run: addresses without memory behind them, which read as 0. NULL: no addresses are left. */
void *gs_dry_alloc(size_t bytes);
void gs_dry_free(void *memory, size_t bytes);
/* In a dry run a read of up to this many bytes fills its target with 0; a longer one does not touch it. */
enum { GS_DRY_READ = 1024 };
static inline void gs_dry_read(void *to, size_t bytes) {
    if (bytes <= GS_DRY_READ) memset(to, 0, bytes);
}
void gs_cpu_set_dry(gs_device *);
void gs_cpu_set_exact(gs_device *);
gs_status gs_device_check_arithmetic(gs_device *); /* arithmetic.c */

/* Host memory for data that also exist on a device. A dry run does not touch it and allocates only a little. Free it
 * with free; NULL: out of memory. */
void *gs_host_malloc(const gs_device *, size_t bytes);
static inline void gs_host_copy(const gs_device *d, void *to, const void *from, size_t bytes) {
    if (bytes > 0 && !d->dry) memcpy(to, from, bytes);
}
static inline void gs_host_add(const gs_device *d, float *sum, const float *x, size_t count) {
    if (d->dry) return;
    for (size_t i = 0; i < count; i++) sum[i] += x[i];
}

gs_status gs_cl_list(gs_device_info **out, int *count, const char **problem);
