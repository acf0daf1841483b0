/* The optimiser updates: optimiser NAME uses the kernel in cl/NAME.cl. */
#include "cl/cl.h"

gs_status gs_cl_sgd_update(gs_device *d, gs_mem w, gs_mem v, gs_mem dw, size_t count, float scale, float lr,
                           float momentum, float weight_decay) {
    if (!v.base) v = w; /* buffer arguments must be valid; without momentum this one is not touched */
    return GS_CL_RUN(d, "sgd", "sgd_update", gs_cl_elements(d, count), w, v, dw, count, scale, lr, momentum,
                     weight_decay);
}

gs_status gs_cl_nesterov_update(gs_device *d, gs_mem w, gs_mem v, gs_mem dw, size_t count, float scale,
                                float lr, float momentum, float weight_decay) {
    return GS_CL_RUN(d, "nesterov", "nesterov_update", gs_cl_elements(d, count), w, v, dw, count, scale, lr,
                     momentum, weight_decay);
}

#define STEP_UPDATE(of, name, update)                                                                        \
    gs_status gs_cl_##update(gs_device *d, gs_mem w, gs_mem m, gs_mem v, gs_mem dw, size_t count,            \
                             gs_adam_step step) {                                                            \
        if (!v.base) v = w; /* a valid buffer, which is not touched */                                       \
        return GS_CL_RUN(d, #name, #update, gs_cl_elements(d, count), w, m, v, dw, count,                    \
                         GS_ARG_STRUCT(step));                                                               \
    }
GS_STEP_UPDATES(STEP_UPDATE, )
