#include "parallel/sequence.h"

bool gs_sequence_is_divided(const gs_layer *l) {
    return l->shard && l->shard->group->sequence && l->shard->group->size > 1;
}

gs_status gs_sequence_check(const gs_layer *l) {
    if (!gs_sequence_is_divided(l)) return GS_OK;
    const bool convolution = l->ops->tensor == GS_TENSOR_CONV;
    if (!convolution && (l->shard->role != GS_TENSOR_TOKENS || l->ops->tensor >= GS_TENSOR_TABLE))
        return GS_OK;
    return gs_layer_refuse(
        l,
        "with --sequence each worker of a group has some tokens of each sequence here, and "
        "this layer needs all of them%s",
        convolution ? ""
                    : "; wanted layer_norm, positions, dropout, residual, activations, and "
                      "pairs of linear layers");
}

gs_status gs_sequence_check_end(const gs_layer *net) {
    const gs_layer *last = net->children > 0 ? net->child[net->children - 1] : net;
    if (!gs_sequence_is_divided(last) || gs_tensor_outputs(net)) return GS_OK;
    if (gs_layer_vocabulary(net) == 0) return GS_OK; /* no sequences: another check refuses this */
    return gs_layer_refuse(last,
                           "with --sequence each worker of a group would have the model's outputs for some "
                           "tokens of each sequence, and the loss needs all; wanted a last layer tied, or "
                           "linear that does not end a pair of linear layers");
}

gs_status gs_sequence_gather(const gs_layer *l, const gs_pass *pass, gs_shape shape, gs_mem part,
                             gs_mem whole) {
    const gs_tensor_group *t = l->shard->group;
    return pass->n > 0 ? t->gather(t->context, l->device, whole, part, pass->n, gs_shape_size(shape)) : GS_OK;
}

gs_status gs_sequence_gather_dy(const gs_layer *l, const gs_pass *pass, gs_mem *dy) {
    const gs_mem part = *dy;
    if (!gs_sequence_is_divided(l)) return GS_OK;
    *dy = gs_sequence_whole(l, GS_WHOLE_DY);
    return gs_sequence_gather(l, pass, l->out, part, *dy);
}
