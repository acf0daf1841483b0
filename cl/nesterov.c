#include "cl/cl.h"

gs_status gs_cl_nesterov_update(gs_device *d, gs_mem w, gs_mem v, gs_mem dw, size_t count, float scale,
                                float lr, float momentum, float weight_decay) {
    return GS_CL_RUN(d, "nesterov", "nesterov_update", gs_cl_elements(d, count), GS_ARG(w), GS_ARG(v),
                     GS_ARG(dw), GS_ARG(count), GS_ARG(scale), GS_ARG(lr), GS_ARG(momentum),
                     GS_ARG(weight_decay));
}
