#include "cpu/cpu.h"

#define MEMORY_SLOT(name) .name = gs_cpu_##name,
#define SLOT(name) .name = GS_ISA(gs_cpu_##name),
const gs_backend GS_ISA(gs_cpu_backend) = {.name = "cpu",
                                           .host_memory = gs_cpu_host_memory,
                                           .read_begin = gs_cpu_read,
                                           .read_end = gs_cpu_finish,
                                           .sums_leaves = true,
                                           GS_MEMORY_FUNCTIONS(MEMORY_SLOT) GS_OPERATORS(SLOT)};
