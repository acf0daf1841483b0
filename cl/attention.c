#include "cl/round16.h"

/* Must match attention_sizes in attention.cl. */
typedef struct attention_sizes {
    cl_int length, width, heads, causal, precision;
} attention_sizes;

static attention_sizes sizes_of(gs_device *d, const gs_attention_sizes *s) {
    return (attention_sizes){s->length, s->width, s->heads, s->causal, (cl_int)d->precision};
}

/* One work-group for each tile of tokens in each head of each sample. */
static gs_cl_grid tiles_of(gs_device *d, size_t n, const gs_attention_sizes *s) {
    const size_t tile = gs_cl_of(d)->tiles.gpu ? 32 : 64; /* as in attention_tile.clh */
    return gs_cl_groups(d, n * (size_t)s->heads * gs_cl_parts((size_t)s->length, tile));
}

/* How many samples to compute at once if `copied` elements of each are copied: enough to give all cores tiles. */
static size_t at_once(gs_device *d, size_t n, const gs_attention_sizes *s, size_t copied) {
    return gs_cl_at_once(d, n, copied, 4 * gs_cl_of(d)->units / (size_t)s->heads + 1);
}

/* Kernels accumulate y and dx tile by tile, so 16-bit results are first summed in scratch memory. */
static gs_status place_of_sums(gs_device *d, gs_mem to, size_t count, gs_mem *sums) {
    *sums = to;
    return to.half ? gs_cl_scratch(d, GS_CL_SCRATCH_FLOATS, count, sums) : GS_OK;
}

static gs_status forward(gs_device *d, gs_mem y, gs_mem softmax, gs_mem x, size_t n,
                         const gs_attention_sizes *s) {
    const attention_sizes sizes = sizes_of(d, s);
    GS_TRY(gs_cl_rounded(d, 1, &(gs_cl_operand){&x, n * 3 * (size_t)s->length * (size_t)s->width, false}));
    return GS_CL_RUN(d, GS_CL_STORED(d, "attention"), "attention_forward", tiles_of(d, n, s), y, softmax, x,
                     n, GS_ARG_STRUCT(sizes));
}

gs_status gs_cl_attention_forward(gs_device *d, gs_mem y, gs_mem softmax, gs_mem x, size_t n,
                                  const gs_attention_sizes *s) {
    const size_t tokens = (size_t)s->length * (size_t)s->width,
                 rows = 2 * (size_t)s->heads * (size_t)s->length,
                 some = at_once(d, n, s, gs_cl_copied(x, 3 * tokens) + (y.half ? tokens : 0));
    for (size_t i = 0; i < n; i += some) {
        const size_t here = n - i < some ? n - i : some;
        const gs_mem to = gs_cl_sample(y, i, tokens);
        gs_mem sums;
        GS_TRY(place_of_sums(d, to, some * tokens, &sums));
        GS_TRY(forward(d, sums, gs_cl_sample(softmax, i, rows), gs_cl_sample(x, i, 3 * tokens), here, s));
        if (to.half) GS_TRY(gs_cl_narrow(d, to, sums, here * tokens, false));
    }
    return GS_OK;
}

/* dq sums over all keys of a query, dk and dv over all queries of a key. Atomic additions would run in random order, so
 * a GPU runs a kernel for each, which recomputes the probabilities. On a CPU one work-item computes a whole head. */
static gs_status backward(gs_device *d, gs_mem dx, gs_mem dy, gs_mem x, gs_mem y, gs_mem softmax, size_t n,
                          const gs_attention_sizes *s) {
    const size_t rows = n * (size_t)s->heads * (size_t)s->length;
    const size_t tokens = n * (size_t)s->length * (size_t)s->width;
    const gs_cl_grid tiles = tiles_of(d, n, s);
    const attention_sizes sizes = sizes_of(d, s);
    GS_TRY(gs_cl_rounded(
        d, 3, (gs_cl_operand[]){{&x, 3 * tokens, false}, {&dy, tokens, false}, {&y, tokens, false}}));
    const char *file = GS_CL_STORED(d, "attention");
    if (!gs_cl_of(d)->tiles.gpu)
        return GS_CL_RUN(d, file, "attention_backward", gs_cl_items(n * (size_t)s->heads, 1), dx, dy, x, y,
                         softmax, n, GS_ARG_STRUCT(sizes));
    gs_mem dy_y;
    GS_TRY(gs_cl_scratch(d, GS_CL_SCRATCH_PARTIAL, rows, &dy_y));
    GS_TRY(GS_CL_RUN(d, file, "attention_dy_y", gs_cl_items(rows, 64), GS_ARG_BUFFER(dy_y), dy, y, rows,
                     GS_ARG_STRUCT(sizes)));
    for (int of_keys = 0; of_keys < 2; of_keys++)
        GS_TRY(GS_CL_RUN(d, file, "attention_gradient", tiles, dx, dy, x, softmax, GS_ARG_BUFFER(dy_y), n,
                         GS_ARG_STRUCT(sizes), of_keys));
    return GS_OK;
}

gs_status gs_cl_attention_backward(gs_device *d, gs_mem dx, gs_mem dy, gs_mem x, gs_mem y, gs_mem softmax,
                                   size_t n, const gs_attention_sizes *s) {
    const size_t tokens = (size_t)s->length * (size_t)s->width,
                 rows = 2 * (size_t)s->heads * (size_t)s->length,
                 copied = gs_cl_copied(x, 3 * tokens) + gs_cl_copied(dy, tokens) + gs_cl_copied(y, tokens),
                 some = at_once(d, n, s, copied + (dx.half ? 3 * tokens : 0));
    for (size_t i = 0; i < n; i += some) {
        const size_t here = n - i < some ? n - i : some;
        const gs_mem to = gs_cl_sample(dx, i, 3 * tokens);
        gs_mem sums;
        GS_TRY(place_of_sums(d, to, some * 3 * tokens, &sums));
        GS_TRY(backward(d, sums, gs_cl_sample(dy, i, tokens), gs_cl_sample(x, i, 3 * tokens),
                        gs_cl_sample(y, i, tokens), gs_cl_sample(softmax, i, rows), here, s));
        if (to.half) GS_TRY(gs_cl_narrow(d, to, sums, here * 3 * tokens, false));
    }
    return GS_OK;
}
