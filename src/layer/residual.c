/* y = body(x) + shortcut(x), or body(x) + x: the body learns the difference to add to x.
 *
 * Source: He, Zhang, Ren, Sun, "Deep residual learning for image recognition" (CVPR 2016).
 *
 * Both branches read the same x and the same dy, and change neither: the first layer of a branch never writes over its
 * x, and the last one never over its dy (sequential.c). Forward's sum overwrites the body's y, if the body's last layer
 * no longer needs it; backward's sum overwrites the body's dx. */
#include "layer/memory/buffer_plan.h"
#include "layer/make.h"

/* True if the layer's y is in its own buffer and its backward does not read it. (A pooling's y may belong to a
 * convolution that does the pooling's work and reads that y.) */
static bool gives_up_y(const gs_layer *l) {
    while (gs_layer_is_sequence(l) && l->children > 0) l = l->child[l->children - 1];
    return l->ops->buffers == GS_OWN && !l->ops->fuse_into;
}

static gs_status residual_plan(gs_layer *l, gs_shape in) {
    static const char *const labels[] = {"body", "shortcut"};
    for (int i = 0; i < l->children; i++) GS_TRY(gs_layer_plan_child(l, i, labels[i], in, l->needs_dx));
    gs_shape a = l->child[0]->out, b = l->children > 1 ? l->child[1]->out : in;
    if (!gs_shape_same(a, b))
        return gs_layer_refuse(
            l, "the body gives %s, but %s %s: they cannot be added%s", gs_shape_tuple(a).text,
            l->children > 1 ? "the shortcut gives" : "the input is", gs_shape_tuple(b).text,
            l->children > 1 ? "" : "; a shortcut can bring the input to the body's shape");
    l->out = a;
    l->y_over_x = gives_up_y(l->child[0]); /* "x" is the body's y */
    l->flops = (double)gs_shape_size(a);
    return GS_OK;
}

static gs_status residual_forward(gs_layer *l, const gs_pass *pass, gs_mem x, gs_mem *y) {
    gs_mem body, shortcut = x;
    GS_TRY(gs_layer_forward(l->child[0], pass, x, &body));
    if (l->children > 1) GS_TRY(gs_layer_forward(l->child[1], pass, x, &shortcut));
    *y = gs_layer_y(l, body);
    if (pass->recomputing && l->memory.rerun != GS_RERUN_WHOLE)
        return GS_OK; /* only layers inside it were to be run again */
    return l->device->ops->add(l->device, *y, body, shortcut, gs_layer_numbers(pass, l->out));
}

/* y = body(x) + shortcut(x); dx = body'(dy) + shortcut'(dy); without a shortcut layer the second term is dy itself. */
static gs_status residual_backward(gs_layer *l, const gs_pass *pass, gs_mem dy, gs_mem *dx) {
    gs_mem body, shortcut = dy;
    GS_TRY(gs_layer_backward(l->child[0], pass, dy, &body));
    if (l->children > 1) GS_TRY(gs_layer_backward(l->child[1], pass, dy, &shortcut));
    *dx = l->dx;
    if (!l->needs_dx) return GS_OK;
    return l->device->ops->add(l->device, l->dx, body, shortcut, pass->n * gs_shape_size(l->in));
}

/* The branches' dx are needed until they are added. */
static int residual_plan_backward(gs_layer *l, gs_buffer_plan *plan, int dy) {
    const int body = gs_buffer_plan_backward(l->child[0], plan, dy),
              shortcut = l->children > 1 ? gs_buffer_plan_backward(l->child[1], plan, dy) : dy;
    const bool over_body = l->needs_dx && body >= 0 && body != dy;
    int mine = GS_NO_BUFFER;
    if (over_body)
        l->memory.dx_buffer = mine = body;
    else if (l->needs_dx)
        mine = gs_buffer_plan_dx(plan, l);
    if (body != dy && body != mine) gs_buffer_plan_release(plan, body);
    if (shortcut != dy && shortcut != mine) gs_buffer_plan_release(plan, shortcut);
    return mine;
}

static const gs_layer_ops residual_ops = {
    .name = "residual",
    .buffers = GS_OWN,
    .incremental = true,
    .tensor = GS_TENSOR_AROUND,
    .plan = residual_plan,
    .forward = residual_forward,
    .backward = residual_backward,
    .plan_backward = residual_plan_backward,
};

gs_layer *gs_residual(gs_layer *body, gs_layer *shortcut) {
    gs_layer *l = body ? gs_layer_new(&residual_ops, sizeof(gs_layer), shortcut ? 2 : 1) : NULL;
    if (!l) {
        gs_layer_free(body);
        gs_layer_free(shortcut);
        return NULL;
    }
    l->child[0] = body;
    if (shortcut) l->child[1] = shortcut;
    return l;
}
