#include "cl/round16.h"

gs_status gs_cl_embedding_forward(gs_device *d, gs_mem y, gs_mem x, gs_mem w, size_t n, int rows, int c,
                                  int first, float other) {
    return GS_CL_RUN(d, GS_CL_AS(d, y, "embedding"), "embedding_forward",
                     gs_cl_with_rows(gs_cl_items((size_t)c, 64), n), y, x, w, n, rows, c, first, other);
}

/* Split the table into slices: on a GPU enough to keep it busy, on a CPU several per core. The result does not depend
 * on their number. */
gs_status gs_cl_embedding_backward(gs_device *d, gs_mem dw, gs_mem dy, gs_mem x, size_t n, int rows, int c,
                                   int first, bool add) {
    enum { GPU_SLICES = 64 };
    const gs_cl *cl = gs_cl_of(d);
    size_t slices = cl->tiles.gpu ? GPU_SLICES : 4 * cl->units;
    if (slices > (size_t)rows) slices = (size_t)rows;
    const gs_cl_grid grid =
        gs_cl_with_rows(cl->tiles.gpu ? gs_cl_items((size_t)c, 64) : gs_cl_items(1, 1), slices);
    if (!add) GS_TRY(gs_cl_fill(d, dw, 0, (size_t)rows * (size_t)c));
    return GS_CL_RUN(d, GS_CL_AS(d, dy, "embedding"), "embedding_backward", grid, dw, dy, x, n, rows, c,
                     first, (int)slices);
}
