#include "cl/round16.h"

gs_status gs_cl_add(gs_device *d, gs_mem y, gs_mem a, gs_mem b, size_t count) {
    return GS_CL_RUN(d, GS_CL_AS(d, y, "add"), "add", gs_cl_elements(d, count), y, a, b, count);
}
