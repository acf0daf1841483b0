#include "cl/cl.h"

gs_status gs_cl_adam_update(gs_device *d, gs_mem w, gs_mem m, gs_mem v, gs_mem dw, size_t count,
                            gs_adam_step step) {
    return GS_CL_RUN(d, "adam", "adam_update", gs_cl_elements(d, count), w, m, v, dw, count,
                     GS_ARG_STRUCT(step));
}
