#include "cl/cl.h"

gs_status gs_cl_lion_update(gs_device *d, gs_mem w, gs_mem m, gs_mem dw, size_t count, gs_adam_step step) {
    return GS_CL_RUN(d, "lion", "lion_update", gs_cl_elements(d, count), w, m, dw, count,
                     GS_ARG_STRUCT(step));
}
