#include "cl/round16.h"

gs_status gs_cl_positions_forward(gs_device *d, gs_mem y, gs_mem x, gs_mem w, size_t n, size_t count) {
    return GS_CL_RUN(d, GS_CL_AS(d, y, "positions"), "positions_forward",
                     gs_cl_with_rows(gs_cl_elements(d, count), n), y, x, w, n, count);
}

gs_status gs_cl_positions_backward(gs_device *d, gs_mem dw, gs_mem dy, size_t n, size_t count, bool add) {
    return GS_CL_RUN(d, GS_CL_AS(d, dy, "positions"), "positions_backward", gs_cl_elements(d, count), dw, dy,
                     n, count, (int)add);
}
