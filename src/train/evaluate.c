#include "train/train.h"

#include "core/shard.h"
#include "train/confusion.h"
#include "train/internal.h"

#include <stdlib.h>

/* The set is cut into blocks of GS_EVAL_BLOCK samples; each worker takes some of the blocks. */
static size_t blocks_of(const gs_dataset *set) {
    return (set->count + GS_EVAL_BLOCK - 1) / GS_EVAL_BLOCK;
}

static gs_status forward_block(gs_worker *w, const gs_dataset *set, size_t block, gs_pass *pass,
                               gs_mem *logits) {
    size_t first = block * GS_EVAL_BLOCK, left = set->count - first;
    *pass = (gs_pass){.n = left < GS_EVAL_BLOCK ? left : GS_EVAL_BLOCK, .training = false};
    GS_TRY(gs_worker_load(w, set, first, pass->n));
    w->device->steady = true;
    gs_status status = gs_model_forward(w->model, pass, w->input.x, logits);
    w->device->steady = false;
    return status;
}

static gs_status rank_classes(gs_worker *w, gs_mem logits, size_t n, gs_ranking *ranking) {
    int classes = w->model->out.c;
    n *= (size_t)gs_model_answers(w->model);
    float *host = malloc(n * (size_t)classes * sizeof *host + 1);
    if (!host) return gs_fail(GS_E_MEMORY, "no memory for logits (%zu,%d)", n, classes);
    gs_status status = w->device->ops->read(w->device, host, logits, n * (size_t)classes * sizeof *host);
    const int32_t *labels = w->input.host_answers;
    if (status == GS_OK && ranking->confusion) gs_confusion_add(ranking->confusion, host, labels, n, classes);
    for (size_t i = 0; status == GS_OK && i < n; i++)
        ranking->top += gs_place_of_logit(host + i * (size_t)classes, classes, labels[i]) < GS_TOP;
    free(host);
    return status;
}

/* stats[block] = the block's loss, correct answers and samples */
static gs_status score_block(gs_worker *w, const gs_dataset *set, size_t block, float stats[GS_STATS],
                             gs_ranking *ranking) {
    gs_pass pass;
    gs_mem logits, tail = gs_model_stats(w->model);
    GS_TRY(forward_block(w, set, block, &pass, &logits));
    GS_TRY(w->device->ops->fill(w->device, tail, 0, GS_STATS));
    if (ranking) GS_TRY(rank_classes(w, logits, pass.n, ranking));
    GS_TRY(gs_model_loss(w->model, &pass, logits, w->input.answers));
    return w->device->ops->read(w->device, stats, tail, GS_STATS * sizeof(float));
}

gs_status gs_evaluate(gs_worker *w, const gs_dataset *set, gs_score *score) {
    return gs_evaluate_classes(w, set, score, NULL);
}

gs_status gs_evaluate_classes(gs_worker *w, const gs_dataset *set, gs_score *score, gs_ranking *ranking) {
    size_t blocks = blocks_of(set);
    gs_shard mine = gs_shard_of(blocks, w->comm->rank, w->comm->size);
    float *stats = calloc(blocks, GS_STATS * sizeof(float));
    if (!stats) return gs_fail(GS_E_MEMORY, "no memory for the scores of %zu blocks", blocks);
    gs_status status = GS_OK;
    for (size_t b = mine.first; b < mine.first + mine.count && status == GS_OK; b++)
        status = score_block(w, set, b, stats + b * GS_STATS, ranking);

    /* The only synchronisation: each block's numbers come from one worker, all others add 0, so this sum is
     * exact. */
    if (status == GS_OK) status = gs_comm_all_reduce(w->comm, stats, blocks * GS_STATS, GS_F32, GS_SUM);
    size_t cells = (size_t)w->model->out.c * (size_t)w->model->out.c;
    if (status == GS_OK && ranking) status = gs_comm_all_reduce(w->comm, &ranking->top, 1, GS_F64, GS_SUM);
    if (status == GS_OK && ranking && ranking->confusion)
        status = gs_comm_all_reduce(w->comm, ranking->confusion, cells, GS_F64, GS_SUM);

    *score = (gs_score){0};
    for (size_t b = 0; b < blocks; b++) {
        score->loss += stats[b * GS_STATS + GS_STAT_LOSS];
        score->correct += stats[b * GS_STATS + GS_STAT_CORRECT];
        score->samples += stats[b * GS_STATS + GS_STAT_SAMPLES];
    }
    free(stats);
    return status;
}

gs_status gs_predict(gs_worker *w, const gs_dataset *set, float *logits) {
    gs_shard mine = gs_shard_of(blocks_of(set), w->comm->rank, w->comm->size);
    size_t classes = gs_shape_size(w->model->out);
    for (size_t b = mine.first; b < mine.first + mine.count; b++) {
        gs_pass pass;
        gs_mem out;
        GS_TRY(forward_block(w, set, b, &pass, &out));
        float *to = logits + b * GS_EVAL_BLOCK * classes;
        GS_TRY(w->device->ops->read(w->device, to, out, pass.n * classes * sizeof(float)));
        GS_TRY(gs_check_logits(w, to, b * GS_EVAL_BLOCK, pass.n));
    }
    return GS_OK;
}
