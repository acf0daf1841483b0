#include "cl/cl.h"

/* Two kernels, because all new keys and values must be stored before any token reads its neighbours'. The second kernel
 * runs one work-group for each token of each head in each sample. */
gs_status gs_cl_attention_cached_forward(gs_device *d, gs_mem y, gs_mem keys, gs_mem values, gs_mem x,
                                         size_t n, size_t past, size_t tokens, const gs_attention_sizes *s) {
    const size_t count = n * tokens * (size_t)s->width;
    GS_TRY(GS_CL_RUN(d, "attention_cached", "attention_keep", gs_cl_items(count, 64), keys, values, x, count,
                     past, tokens, GS_ARG_STRUCT(*s)));
    return GS_CL_RUN(d, "attention_cached", "attention_cached_forward",
                     gs_cl_groups(d, n * tokens * (size_t)s->heads), y, keys, values, x, n, past, tokens,
                     GS_ARG_STRUCT(*s));
}
