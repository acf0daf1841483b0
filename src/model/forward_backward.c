/* A pass: forward, which computes the logits; the loss, which is added to the tail of the gradients; and backward. Also
 * clears gradients before a step, and updates the layers' state after it. */
#include "layer/leaves.h"
#include "layer/memory/buffer_plan.h"
#include "parallel/tensor.h"
#include "model/model.h"

/* ---- forward ---- */

gs_status gs_model_forward(gs_model *m, const gs_pass *pass, gs_mem x, gs_mem *logits) {
    if (pass->n > m->max_batch)
        return gs_fail(GS_E_USAGE, "a pass of %zu samples; wanted at most %zu, the max_batch of the model",
                       pass->n, m->max_batch);
    if (pass->tokens && (pass->training || pass->past + pass->tokens > (size_t)gs_model_targets(m)))
        gs_bug("%zu tokens after %zu of a sequence of %d", pass->tokens, pass->past, gs_model_targets(m));
    return gs_layer_forward(m->net, pass, x, logits);
}

/* ---- loss ---- */

/* What the loss compares the outputs with: the targets themselves, or one-hot labels. */
static gs_mem targets_of(const gs_model *m, gs_mem targets) {
    return m->loss == GS_MEAN_SQUARED_ERROR ? m->target : targets;
}

/* Label smoothing is only for training; a test loss uses the unsmoothed labels. */
static float smoothing_of(const gs_model *m, const gs_pass *pass) {
    return pass->training ? m->label_smoothing : 0;
}

/* ---- loss of outputs that a group divides (parallel/tensor.h) ---- */

static bool is_divided(const gs_model *m) {
    return m->loss_sums.base != NULL;
}

static gs_share share_of(const gs_model *m) {
    return gs_tensor_share(&m->tensor, gs_model_whole(m)->out.c);
}

/* Each rank writes its largest output for each row into an array of zeros; summing the arrays over the group gathers
 * them. Then the exponentials are summed over the group. */
static gs_status loss_of_parts(gs_model *m, const gs_pass *pass, gs_mem p, gs_mem stats, gs_mem logits,
                               gs_mem targets) {
    const gs_backend *ops = m->device->ops;
    const gs_layer *head = gs_tensor_outputs(m->net);
    const gs_share share = share_of(m);
    const size_t rows = pass->n * (size_t)gs_model_targets(m), ranks = (size_t)share.ranks;
    const gs_mem most = m->loss_sums, sums = gs_at(most, ranks * rows);
    GS_TRY(ops->fill(m->device, most, 0, ranks * rows));
    GS_TRY(ops->softmax_part_largest(m->device, most, logits, rows, m->out.c, &share));
    GS_TRY(gs_tensor_sum(head, most, ranks * rows));
    GS_TRY(ops->softmax_part_sums(m->device, p, sums, most, logits, targets, rows, m->out.c,
                                  smoothing_of(m, pass), &share));
    GS_TRY(gs_tensor_sum(head, sums, 3 * rows));
    return ops->softmax_part_end(m->device, p, stats, sums, rows, m->out.c);
}

static gs_status backward_of_parts(gs_model *m, const gs_pass *pass, gs_mem targets) {
    const gs_share share = share_of(m);
    return m->device->ops->softmax_part_backward(m->device, m->dlogits, m->probability, targets,
                                                 pass->n * (size_t)gs_model_targets(m), m->out.c,
                                                 smoothing_of(m, pass), &share);
}

/* ---- the general loss, and backward ---- */

/* A bad label would make operators read outside a row. Data sets are checked in advance (gs_model.knows_labels). */
static gs_status check_labels(const gs_model *m, gs_mem labels, size_t rows) {
    const gs_backend *ops = m->device->ops;
    const int classes = gs_model_whole(m)->out.c;
    gs_status status = GS_OK;
    void *host;
    GS_TRY(ops->map(m->device, labels, rows * sizeof(int32_t), &host));
    for (size_t i = 0; i < rows && status == GS_OK; i++) {
        const int label = ((const int32_t *)host)[i];
        if (label < 0 || label >= classes)
            status =
                gs_fail(GS_E_FORMAT, "the label of sample %zu is %d; wanted 0 to %d, as there are %d classes",
                        i / (size_t)gs_model_targets(m), label, classes - 1, classes);
    }
    GS_TRY(ops->unmap(m->device, labels, host));
    return status;
}

/* Add a pass, or a leaf of it, to stats. */
static gs_status add_loss(gs_model *m, const gs_pass *pass, gs_mem stats, gs_mem logits, gs_mem targets) {
    const gs_backend *ops = m->device->ops;
    const size_t rows = pass->n * (size_t)gs_model_targets(m),
                 from = pass->from * (size_t)gs_model_targets(m), at = from * (size_t)m->out.c;
    const gs_mem x = gs_at(logits, at), p = gs_at(m->probability, at);
    const gs_mem t = gs_at(targets_of(m, targets), m->loss == GS_SOFTMAX_CROSS_ENTROPY ? from : at);
    if (is_divided(m)) return loss_of_parts(m, pass, p, stats, x, t);
    if (m->loss == GS_SOFTMAX_CROSS_ENTROPY)
        return ops->softmax_cross_entropy_forward(m->device, p, stats, x, t, rows, m->out.c,
                                                  smoothing_of(m, pass));
    return ops->mean_squared_error_forward(m->device, stats, x, t, rows, m->out.c);
}

gs_status gs_model_loss(gs_model *m, const gs_pass *pass, gs_mem logits, gs_mem targets) {
    const gs_backend *ops = m->device->ops;
    const size_t rows = pass->n * (size_t)gs_model_targets(m);
    const int leaves = pass->leaves.count;
    if (m->loss != GS_REGRESSION && !m->knows_labels) GS_TRY(check_labels(m, targets, rows));
    if (m->loss == GS_MEAN_SQUARED_ERROR) GS_TRY(ops->one_hot(m->device, m->target, targets, rows, m->out.c));
    if (leaves < 2) return add_loss(m, pass, gs_model_stats(m), logits, targets);
    const gs_mem stats = m->net->arena->leaf_sums;
    GS_TRY(ops->fill(m->device, stats, 0, (size_t)leaves * GS_STATS));
    for (int k = 0; k < leaves; k++) {
        const gs_pass leaf = gs_leaf_of(pass, k);
        if (leaf.n > 0) GS_TRY(add_loss(m, &leaf, gs_at(stats, (size_t)k * GS_STATS), logits, targets));
    }
    for (size_t d = GS_STATS; d < (size_t)leaves * GS_STATS; d *= 2) /* the tree's levels */
        for (size_t k = 0; k < (size_t)leaves * GS_STATS; k += 2 * d)
            GS_TRY(ops->add(m->device, gs_at(stats, k), gs_at(stats, k), gs_at(stats, k + d), GS_STATS));
    return ops->copy(m->device, gs_model_stats(m), stats, GS_STATS);
}

/* Compute dlogits: the gradient of -log softmax(logits)[label] (label smoothing: backend.h) or of mean((logits -
 * target)^2), *summed* over the samples. */
static gs_status backward_of_loss(gs_model *m, const gs_pass *pass, gs_mem logits, gs_mem targets) {
    const gs_backend *ops = m->device->ops;
    size_t rows = pass->n * (size_t)gs_model_targets(m);
    if (is_divided(m))
        GS_TRY(backward_of_parts(m, pass, targets));
    else if (m->loss == GS_SOFTMAX_CROSS_ENTROPY)
        GS_TRY(ops->softmax_cross_entropy_backward(m->device, m->dlogits, m->probability, targets, rows,
                                                   m->out.c, smoothing_of(m, pass)));
    else
        GS_TRY(ops->mean_squared_error_backward(m->device, m->dlogits, logits, targets_of(m, targets), rows,
                                                m->out.c));
    if (!(pass->loss_scale > 0)) return GS_OK;
    /* dlogits = scale dlogits */
    return ops->fma_loop(m->device, m->dlogits, pass->loss_scale, 0, rows * (size_t)m->out.c, 1);
}

gs_status gs_model_backward(gs_model *m, const gs_pass *pass, gs_mem logits, gs_mem targets) {
    gs_mem dx;
    GS_TRY(backward_of_loss(m, pass, logits, targets));
    GS_TRY(gs_layer_backward(m->net, pass, m->dlogits, &dx));
    return pass->final ? pass->final(pass->final_context, 0) : GS_OK;
}

gs_status gs_model_backward_stage(gs_model *m, const gs_pass *pass, gs_mem logits, gs_mem targets, gs_mem dy,
                                  gs_mem *dx) {
    if (m->has_loss) GS_TRY(backward_of_loss(m, pass, logits, targets));
    return gs_layer_backward(m->net, pass, m->has_loss ? m->dlogits : dy, dx);
}

/* ---- between the passes of different steps ---- */

gs_status gs_model_clear_stats(gs_model *m) {
    return m->device->ops->fill(m->device, gs_model_stats(m), 0, GS_STATS);
}

gs_status gs_model_clear_gradients(gs_model *m) {
    const size_t first = m->gradients_apart ? m->params : 0;
    return m->device->ops->fill(m->device, gs_at(m->gradients, first), 0, m->saved + GS_STATS - first);
}

gs_status gs_model_update_state(gs_model *m, double samples) {
    return gs_model_update_state_of(m, gs_at(m->weights, m->params), gs_at(m->gradients, m->params),
                                    m->saved - m->params, samples);
}

gs_status gs_model_update_state_of(gs_model *m, gs_mem state, gs_mem sums, size_t count, double samples) {
    const gs_backend *ops = m->device->ops;
    void *host;
    if (count == 0) return GS_OK;
    GS_TRY(ops->copy(m->device, state, sums, count));
    GS_TRY(ops->map(m->device, state, count * sizeof(float), &host));
    for (size_t i = 0; i < count; i++) ((float *)host)[i] /= (float)(samples / gs_model_targets(m));
    return ops->unmap(m->device, state, host);
}
