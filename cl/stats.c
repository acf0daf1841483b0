#include "cl/cl.h"

gs_status gs_cl_stats_part(gs_device *d, size_t n, gs_mem *part) {
    return gs_cl_scratch(d, GS_CL_SCRATCH_PARTIAL, 2 * n, part);
}

gs_status gs_cl_stats_add(gs_device *d, gs_mem stats, gs_mem part, size_t n) {
    return GS_CL_RUN(d, "stats", "stats_add", gs_cl_items(GS_SUM_ITEMS, GS_SUM_ITEMS), GS_ARG(stats),
                     GS_ARG(part), GS_ARG(n));
}
