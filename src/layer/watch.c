/* How a layer runs: its own forward and backward, inside of the watchers that the net has. */
#include "layer/watch.h"

static gs_status run(gs_layer *l, gs_direction direction, const gs_pass *pass, gs_mem in, gs_mem *out,
                     const gs_layer_watcher *w) {
    if (w) {
        if (w->before) GS_TRY(w->before(w->context, l, direction, pass, in));
        GS_TRY(run(l, direction, pass, in, out, w->next));
        return w->after ? w->after(w->context, l, direction, pass, *out) : GS_OK;
    }
    *out = direction == GS_FORWARD ? gs_layer_y(l, in) : gs_layer_dx(l, in);
    if (direction == GS_BACKWARD) return l->ops->backward(l, pass, in, out);
    l->x = in;
    return l->ops->forward(l, pass, in, out);
}

gs_status gs_layer_forward(gs_layer *l, const gs_pass *pass, gs_mem x, gs_mem *y) {
    return run(l, GS_FORWARD, pass, x, y, l->root->watchers);
}

gs_status gs_layer_backward(gs_layer *l, const gs_pass *pass, gs_mem dy, gs_mem *dx) {
    return run(l, GS_BACKWARD, pass, dy, dx, l->root->watchers);
}

void gs_layer_add_hooks(gs_layer *root, gs_layer_hooks *last) {
    gs_layer_hooks **end = &root->hooks;
    while (*end) end = &(*end)->next;
    *end = last;
}
