/* The two losses, between the logits and the tail of the gradients. */
#include "model/model.h"

gs_status gs_model_loss(gs_model *m, const gs_pass *pass, gs_mem logits, gs_mem labels) {
    const gs_backend *ops = m->device->ops;
    gs_mem stats = gs_model_stats(m);
    if (m->loss == GS_SOFTMAX_CROSS_ENTROPY)
        return ops->softmax_cross_entropy_forward(m->device, m->probability, stats, logits, labels, pass->n,
                                                  m->out.c);
    GS_TRY(ops->one_hot(m->device, m->target, labels, pass->n, m->out.c));
    return ops->mean_squared_error_forward(m->device, stats, logits, m->target, pass->n, m->out.c);
}

/* Of the *sum* over the samples of -log softmax(logits)[label], or of mean((logits - one_hot(label))^2):
 * dlogits, and from it everything before. */
gs_status gs_model_backward(gs_model *m, const gs_pass *pass, gs_mem logits, gs_mem labels) {
    const gs_backend *ops = m->device->ops;
    if (m->loss == GS_SOFTMAX_CROSS_ENTROPY)
        GS_TRY(ops->softmax_cross_entropy_backward(m->device, m->dlogits, m->probability, labels, pass->n,
                                                   m->out.c));
    else
        GS_TRY(ops->mean_squared_error_backward(m->device, m->dlogits, logits, m->target, pass->n, m->out.c));
    gs_mem dx;
    GS_TRY(gs_layer_backward(m->net, pass, m->dlogits, &dx));
    return pass->final ? pass->final(pass->final_context, 0) : GS_OK;
}
