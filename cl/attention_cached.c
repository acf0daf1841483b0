#include "cl/cl.h"

/* Two kernels: the new keys and values must all be kept before a token looks at those of its neighbours. Then one
 * work-group for each token, each head and each sample: GS_SUM_ITEMS of a GPU's work-items, or one of a CPU. */
gs_status gs_cl_attention_cached_forward(gs_device *d, gs_mem y, gs_mem keys, gs_mem values, gs_mem x,
                                         size_t n, size_t past, size_t tokens, const gs_attention_sizes *s) {
    const size_t each = gs_cl_of(d)->tiles.gpu ? GS_SUM_ITEMS : 1, count = n * tokens * (size_t)s->width;
    GS_TRY(GS_CL_RUN(d, "attention_cached", "attention_keep", gs_cl_items(count, 64), keys, values, x, count,
                     past, tokens, GS_ARG_STRUCT(*s)));
    return GS_CL_RUN(d, "attention_cached", "attention_cached_forward",
                     gs_cl_items(n * tokens * (size_t)s->heads * each, each), y, keys, values, x, n, past,
                     tokens, GS_ARG_STRUCT(*s));
}
