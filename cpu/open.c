#include "cpu/cpu.h"
#include "core/text.h"
#include "core/usable.h"

#include <cblas.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

extern const gs_backend gs_cpu_backend_base, gs_cpu_backend_soft, gs_cpu_backend_v3, gs_cpu_backend_v4;

#if defined(__aarch64__)
#define BASE "NEON" /* every arm64 processor has it */
#else
#define BASE "baseline"
#endif

#if defined(GS_HAS_ISA_v3) || defined(GS_HAS_ISA_v4)
static bool runs_v3(void) {
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
}
#endif

#if defined(GS_HAS_ISA_v4)
static bool runs_v4(void) {
    return runs_v3() && gs_cpu_has_avx512();
}
#endif

/* The instruction sets for which cpu/ was compiled (ISAS in the Makefile, which defines GS_HAS_ISA_...), best first. */
typedef struct isa {
    const char *level, *name;
    const gs_backend *backend;
    bool (*runs)(void); /* NULL: runs anywhere */
} isa;
static const isa isas[] = {
#if defined(GS_HAS_ISA_v4)
    {"v4", "AVX-512", &gs_cpu_backend_v4, runs_v4},
#endif
#if defined(GS_HAS_ISA_v3)
    {"v3", "AVX2", &gs_cpu_backend_v3, runs_v3},
#endif
#if defined(GS_HAS_ISA_base)
    {"baseline", BASE, &gs_cpu_backend_base, NULL},
#endif
};

/* The best instruction set that the machine runs, or the one that GRADSUM_ISA names. */
static gs_status choose_isa(const isa **chosen) {
    const char *level = getenv("GRADSUM_ISA");
    char runs[64] = "";
    for (*chosen = isas; *chosen < isas + sizeof isas / sizeof *isas; ++*chosen) {
        if ((*chosen)->runs && !(*chosen)->runs()) continue;
        if (!level || !*level || strcmp(level, (*chosen)->level) == 0) return GS_OK;
        gs_append(runs, sizeof runs, "%s%s", *runs ? ", " : "", (*chosen)->level);
    }
    if (!*runs) gs_bug("the kernels of this build are for another processor: make it with all ISAS");
    return gs_fail(GS_E_USAGE, "GRADSUM_ISA=%s: wanted an instruction set of this machine and build: %s",
                   level, runs);
}

static bool has_bf16(const gs_backend *chosen) {
#if defined(GS_HAS_ISA_v4)
    return chosen == &gs_cpu_backend_v4 && __builtin_cpu_supports("avx512bf16");
#else
    (void)chosen;
    return false;
#endif
}

static gs_backend edited; /* the best table with the caller's functions in it, used while `replaced` */
static bool replaced;

static bool fuses_nothing(gs_device *d, const gs_epilogue *e) {
    (void)d, (void)e;
    return false;
}

void gs_backend_replace(void (*edit)(gs_backend *)) {
    const isa *best;
    replaced = edit != NULL;
    if (!edit || choose_isa(&best) != GS_OK) return; /* opening fails too, and says why */
    const gs_backend *ours = best->backend;
    edited = *ours;
    edit(&edited);
    if (edited.linear_forward != ours->linear_forward || edited.linear_backward != ours->linear_backward ||
        edited.conv2d_forward != ours->conv2d_forward || edited.conv2d_backward != ours->conv2d_backward ||
        edited.relu_forward != ours->relu_forward || edited.relu_backward != ours->relu_backward ||
        edited.max_pool2d_forward != ours->max_pool2d_forward ||
        edited.max_pool2d_backward != ours->max_pool2d_backward)
        edited.fuses = fuses_nothing, edited.sums_leaves = false;
}

bool gs_cpu_has_avx512(void) {
#if defined(__x86_64__)
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
#else
    return false;
#endif
}

const char *gs_cpu_better_kernels(const char *chosen, bool avx512) {
    static const char *const uses_avx512[] = {"SkylakeX", "Cooperlake", "SapphireRapids"};
    for (size_t i = 0; i < sizeof uses_avx512 / sizeof *uses_avx512; i++)
        if (strcmp(chosen, uses_avx512[i]) == 0) return NULL;
    return avx512 ? "SkylakeX" : NULL;
}

/* An environment variable for the restarted program: the kernels that OpenBLAS had chosen by itself. */
static const char LEFT_TO_ITSELF[] = "GRADSUM_OPENBLAS_ALONE";

void gs_cpu_choose_kernels(char **argv) {
    if (getenv("OPENBLAS_CORETYPE")) return; /* the user has chosen, or this is the restarted program */
    const char *chosen = openblas_get_corename(),
               *better = gs_cpu_better_kernels(chosen, gs_cpu_has_avx512());
    if (!better || setenv(LEFT_TO_ITSELF, chosen, 1) != 0 || setenv("OPENBLAS_CORETYPE", better, 1) != 0)
        return;
    setenv("OPENBLAS_NUM_THREADS", "1",
           0); /* its threads would spin for 30 ms and then never be used: see pool.h */
    execv("/proc/self/exe", argv);
    unsetenv("OPENBLAS_CORETYPE"); /* restart failed: continue with the current kernels */
    unsetenv(LEFT_TO_ITSELF);
}

int gs_cpu_cores(void) {
    return gs_usable_here().cpus;
}

static void cpu_model(char *text, size_t size) {
    snprintf(text, size, "CPU");
    FILE *f = fopen("/proc/cpuinfo", "r");
    if (!f) return;
    char line[256];
    while (fgets(line, sizeof line, f)) {
        const char *value = strchr(line, ':');
        /* "Model": the board, on arm64, where the processor is not named */
        if ((strncmp(line, "model name", 10) == 0 || strncmp(line, "Model", 5) == 0) && value) {
            snprintf(text, size, "%.*s", (int)strcspn(value + 2, "\n"), value + 2);
            break;
        }
    }
    fclose(f);
}

gs_status gs_cpu_open(gs_device *d, int threads) {
    const isa *best;
    if (threads < 0) gs_bug("gs_cpu_open: %d threads", threads);
    if (threads == 0) threads = gs_cpu_cores();
    GS_TRY(choose_isa(&best));
    GS_TRY(gs_cpu_take_openblas_memory(threads));
    openblas_set_num_threads(1); /* the pool divides the work: see pool.h */
    gs_cpu *cpu = calloc(1, sizeof *cpu);
    gs_status status = cpu ? gs_pool_create(threads, &cpu->pool) : gs_fail(GS_E_MEMORY, "cpu: no memory");
    if (status != GS_OK) {
        gs_cpu_give_openblas_memory(threads);
        free(cpu);
        return status;
    }
    d->ops = best->backend;
    cpu->bf16 = has_bf16(d->ops);
    if (replaced) d->ops = &edited;
    d->state = cpu;
    char model[96];
    cpu_model(model, sizeof model);
    snprintf(d->description, sizeof d->description, "%s, %d thread%s, %s, OpenBLAS %s", model, threads,
             threads == 1 ? "" : "s", best->name, openblas_get_corename());
    return GS_OK;
}

void gs_cpu_set_exact(gs_device *d) {
    gs_cpu_of(d)->bf16 = false; /* its instruction adds in another order */
#if defined(GS_HAS_ISA_soft)
    if (d->ops == &gs_cpu_backend_base) d->ops = &gs_cpu_backend_soft;
#endif
}

gs_status gs_cpu_info(gs_device_info *info) {
    const isa *best;
    GS_TRY(choose_isa(&best));
    *info = (gs_device_info){.name = "cpu", .kind = "cpu", .units = gs_cpu_cores()};
    cpu_model(info->description, sizeof info->description);
    info->memory = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
    const char *kernels = openblas_get_corename(),
               *better = gs_cpu_better_kernels(kernels, gs_cpu_has_avx512());
    const char *forced = getenv("OPENBLAS_CORETYPE"), *alone = getenv(LEFT_TO_ITSELF);
    char why[100] = "";
    if (forced && alone)
        snprintf(why, sizeof why, " (OpenBLAS alone: %s)", alone);
    else if (forced)
        snprintf(why, sizeof why, " (set by OPENBLAS_CORETYPE%s%s)", better ? "; faster here: " : "",
                 better ? better : "");
    snprintf(info->note, sizeof info->note, "own loops: %s; OpenBLAS kernels: %s%s", best->name, kernels,
             why);
    return GS_OK;
}
