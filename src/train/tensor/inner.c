/* --tensor with --pipeline and --zero: each part of the layers is trained as the whole model would be without --tensor,
 * by the workers that have this part, and layers sum in the group while they compute.
 *
 *     --layout dp2,tp2,pp2        part 0            part 1
 *     stage 0, replica 0, 1       worker 0, 2       worker 1, 3       sums of layers go along a row,
 *     stage 1, replica 0, 1       worker 4, 6       worker 5, 7       activations and gradients' sums stay in a column
 *
 * So part i of a stage sends what it computed to part i of the next one; and with ZeRO the replicas of a part divide
 * its vectors, gradients and weights. A stage may even end between the two layers of a pair: then a message is a part,
 * too. */
#include "train/ways/pipeline.h"
#include "train/ways/tensor.h"
#include "train/ways/way.h"

const gs_way *gs_tensor_inner(const gs_settings *s) {
    if (s->pipeline > 1) return &gs_way_pipeline;
    if (s->zero) return s->exact ? &gs_way_zero_exact : &gs_way_zero;
    return s->exact ? &gs_way_exact : NULL;
}

static gs_model *stage_of(const gs_worker *w, int i) {
    return gs_way_pipeline.model(w, i);
}

const gs_way gs_way_tensor_pipeline = {
    .name = "tensor, pipeline",
    GS_TENSOR_SHARED,
    .no_offload = "gives each worker its stage of the layers and of the vectors already",
    .own_sums = true,
    .split = true,
    .score = gs_stage_score,
    .rehearse = gs_stage_rehearse,
    .model = stage_of,
};

static gs_status attend(gs_worker *w) {
    return gs_way_zero.attend(w);
}

const gs_way gs_way_tensor_zero = {
    .name = "tensor, zero",
    GS_TENSOR_SHARED,
    .own_sums = true,
    .attend = attend,
};
