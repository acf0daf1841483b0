#include "cl/cl.h"

gs_status gs_cl_nesterov_update(gs_device *d, gs_mem w, gs_mem v, gs_mem dw, size_t count, float scale,
                                float lr, float momentum, float weight_decay) {
    return GS_CL_RUN(d, "nesterov", "nesterov_update", gs_cl_elements(d, count), w, v, dw, count, scale, lr,
                     momentum, weight_decay);
}
