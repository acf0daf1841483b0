#include "cpu/cpu.h"

#define SLOT(name) .name = GS_ISA(name),
const gs_backend GS_ISA(backend) = {.name = "cpu",
                                    .alloc = gs_cpu_alloc,
                                    .free = gs_cpu_free,
                                    .write = gs_cpu_write,
                                    .host_memory = gs_cpu_host_memory,
                                    .read = gs_cpu_read,
                                    .read_begin = gs_cpu_read,
                                    .read_end = gs_cpu_finish,
                                    .map = gs_cpu_map,
                                    .unmap = gs_cpu_unmap,
                                    .fill = gs_cpu_fill,
                                    .copy = gs_cpu_copy,
                                    .finish = gs_cpu_finish,
                                    .close = gs_cpu_close,
                                    GS_OPERATORS(SLOT)};
