#include "cl/cl.h"

gs_status gs_cl_lamb_direction(gs_device *d, gs_mem dw, gs_mem m, gs_mem v, gs_mem w, size_t count,
                               gs_adam_step step) {
    return GS_CL_RUN(d, "lamb", "lamb_direction", gs_cl_elements(d, count), dw, m, v, w, count,
                     GS_ARG_STRUCT(step));
}
