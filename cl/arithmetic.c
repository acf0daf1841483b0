#include "cl/cl.h"

gs_status gs_cl_arithmetic(gs_device *d, gs_mem y, gs_mem a, gs_mem b, gs_mem c, size_t count) {
    return GS_CL_RUN(d, "arithmetic", "arithmetic", gs_cl_elements(d, count), y, a, b, c, count);
}
