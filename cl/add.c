#include "cl/round16.h"

gs_status gs_cl_add(gs_device *d, gs_mem y, gs_mem a, gs_mem b, size_t count) {
    return GS_CL_RUN(d, GS_CL_AS(d, y, "add"), "add", gs_cl_elements(d, count), GS_ARG(y), GS_ARG(a),
                     GS_ARG(b), GS_ARG(count));
}
