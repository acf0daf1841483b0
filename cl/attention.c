#include "cl/cl.h"

enum { TILE = 32 }; /* as in attention.cl */

/* One work-group for each tile of tokens, each head and each sample: so many of a GPU's work-items, or one of a CPU. */
static gs_cl_grid tiles_of(gs_device *d, size_t n, const gs_attention_sizes *s) {
    const size_t each = gs_cl_of(d)->tiles.gpu ? GS_SUM_ITEMS : 1,
                 tiles = gs_cl_parts((size_t)s->length, TILE);
    return gs_cl_items(n * (size_t)s->heads * tiles * each, each);
}

gs_status gs_cl_attention_forward(gs_device *d, gs_mem y, gs_mem lse, gs_mem x, size_t n,
                                  const gs_attention_sizes *s) {
    return GS_CL_RUN(d, "attention", "attention_forward", tiles_of(d, n, s), GS_ARG(y), GS_ARG(lse),
                     GS_ARG(x), GS_ARG(n), GS_ARG_STRUCT(*s));
}

/* dq needs all keys of a query, dk and dv all queries of a key. Instead of atomic additions, whose order is left to
 * chance, two kernels compute the probabilities, each for its own sums. */
gs_status gs_cl_attention_backward(gs_device *d, gs_mem dx, gs_mem dy, gs_mem x, gs_mem y, gs_mem lse,
                                   size_t n, const gs_attention_sizes *s) {
    const size_t rows = n * (size_t)s->heads * (size_t)s->length;
    const gs_cl_grid tiles = tiles_of(d, n, s);
    gs_mem dy_y;
    GS_TRY(gs_cl_scratch(d, GS_CL_SCRATCH_PARTIAL, rows, &dy_y));
    GS_TRY(GS_CL_RUN(d, "attention", "attention_dy_y", gs_cl_items(rows, 64), GS_ARG_BUFFER(dy_y), GS_ARG(dy),
                     GS_ARG(y), GS_ARG(rows), GS_ARG_STRUCT(*s)));
    GS_TRY(GS_CL_RUN(d, "attention", "attention_dq", tiles, GS_ARG(dx), GS_ARG(dy), GS_ARG(x), GS_ARG(lse),
                     GS_ARG_BUFFER(dy_y), GS_ARG(n), GS_ARG_STRUCT(*s)));
    return GS_CL_RUN(d, "attention", "attention_dk_dv", tiles, GS_ARG(dx), GS_ARG(dy), GS_ARG(x), GS_ARG(lse),
                     GS_ARG_BUFFER(dy_y), GS_ARG(n), GS_ARG_STRUCT(*s));
}
