#include "cl/cl.h"

gs_status gs_cl_sgd_update(gs_device *d, gs_mem w, gs_mem v, gs_mem dw, size_t count, float scale, float lr,
                           float momentum, float weight_decay) {
    if (!v.base) v = w; /* a kernel's buffer must exist; without momentum this one is not touched */
    return GS_CL_RUN(d, "sgd", "sgd_update", gs_cl_elements(d, count), GS_ARG(w), GS_ARG(v), GS_ARG(dw),
                     GS_ARG(count), GS_ARG(scale), GS_ARG(lr), GS_ARG(momentum), GS_ARG(weight_decay));
}
