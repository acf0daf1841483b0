#include "cl/cl.h"

gs_status gs_cl_sgd_update(gs_device *d, gs_mem w, gs_mem v, gs_mem dw, size_t count, float scale, float lr,
                           float momentum, float weight_decay) {
    if (!v.base) v = w; /* a kernel's buffer must exist; without momentum this one is not touched */
    return GS_CL_RUN(d, "sgd", "sgd_update", gs_cl_elements(d, count), w, v, dw, count, scale, lr, momentum,
                     weight_decay);
}
