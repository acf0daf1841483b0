/* Lab 2, as given: puts the student's operators into the table of every device "cpu" that opens after this. */
#include "backend.h"
#include "lab.h"
#include "tasks.h"

/* `then` is always empty: only the library's operators fuse a relu. */
static gs_status of_linear(gs_device *d, gs_mem dx, gs_mem dw, gs_mem db, gs_mem dy, gs_mem x, gs_mem w,
                           size_t n, int in, int out, bool add, const gs_epilogue *then) {
    (void)then;
    /* without `add` the gradients hold nothing yet */
    if (!add) GS_TRY(d->ops->fill(d, dw, 0, (size_t)in * (size_t)out));
    if (!add && db.base) GS_TRY(d->ops->fill(d, db, 0, (size_t)out));
    return linear_backward(dx, dw, db, dy, x, w, n, in, out);
}

static gs_status of_softmax_cross_entropy(gs_device *d, gs_mem dx, gs_mem p, gs_mem labels, size_t n,
                                          int classes, float smoothing) {
    (void)d, (void)smoothing; /* the lab trains without */
    return softmax_cross_entropy_backward(dx, p, labels, n, classes);
}

static void edit(gs_backend *table) {
    table->linear_backward = of_linear;
    table->softmax_cross_entropy_backward = of_softmax_cross_entropy;
}

void lab_install(void) {
    gs_backend_replace(edit);
}
