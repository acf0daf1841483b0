#include "core/clock.h"
#include "layer/layer.h"

#include "train/diverged.h"
#include "train/evaluate.h"
#include "train/strategy.h"
#include "train/reducer.h"

#include <math.h>
#include <stdlib.h>

static gs_status add_outputs(gs_layer *l, void *bytes) {
    if (l->children == 0) *(double *)bytes += (double)gs_shape_size(l->out) * sizeof(float);
    return GS_OK;
}

gs_status gs_output_bytes(const char *model, gs_shape in, double *bytes) {
    gs_model *plan;
    *bytes = 0;
    GS_TRY(gs_model_create(NULL, &(gs_model_config){.text = model, .in = in}, &plan));
    gs_status status = gs_layer_walk(plan->net, add_outputs, bytes);
    gs_model_free(plan);
    return status;
}

size_t gs_samples_within(double most, size_t usual, double bytes) {
    size_t n = usual;
    while (n > 1 && (double)n * bytes > most) n /= 2;
    return n;
}

gs_status gs_eval_block(const char *model, gs_shape in, size_t *block) {
    double bytes;
    GS_TRY(gs_output_bytes(model, in, &bytes));
    *block = gs_samples_within(GS_EVAL_BYTES, GS_EVAL_BLOCK, bytes);
    return GS_OK;
}

static size_t blocks_of(const gs_worker *w, const gs_dataset *set) {
    return (set->count + w->eval_block - 1) / w->eval_block;
}

static bool has_stage(const gs_worker *w) {
    return gs_has_stages(w) && w->train_set;
}

/* All stages of a pipeline compute the same blocks. *scored: true on the last stage, whose stats then hold the loss.
 * *logits: set on a worker that holds all layers. */
static gs_status forward_block(gs_worker *w, const gs_dataset *set, size_t block, gs_pass *pass,
                               gs_mem *logits, bool *scored) {
    const size_t first = block * w->eval_block;
    *pass = (gs_pass){.n = gs_smaller(set->count - first, w->eval_block), .training = false};
    GS_TRY(gs_worker_load_range(w, set, first, pass->n));
    const bool fixed_order = w->device->fixed_order;
    w->device->fixed_order = true;
    gs_status status = has_stage(w) ? w->strategy->score(w, pass, scored)
                                    : gs_model_forward(w->model, pass, w->input.x, logits);
    w->device->fixed_order = fixed_order;
    return status;
}

/* Rank the classes of samples first .. first + n - 1 of the set. */
static gs_status rank_classes(gs_worker *w, gs_mem logits, size_t first, size_t n, gs_ranking *ranking) {
    const int classes = w->model->out.c, targets = gs_model_targets(w->model);
    n *= (size_t)targets;
    float *host;
    GS_TRY(GS_NEW(host, n * (size_t)classes, "logits (%zu,%d)", n, classes));
    gs_status status = w->device->ops->read(w->device, host, logits, n * (size_t)classes * sizeof *host);
    const int32_t *labels = w->input.host_targets;
    if (status == GS_OK && ranking->confusion) gs_confusion_add(ranking->confusion, host, labels, n, classes);
    if (status == GS_OK && ranking->worst && targets == 1)
        gs_worst_add_logits(ranking->worst, first, host, labels, n, classes);
    for (size_t i = 0; status == GS_OK && i < n; i++)
        ranking->top += gs_rank_of_label(host + i * (size_t)classes, classes, labels[i]) < GS_TOP;
    free(host);
    return status;
}

/* stats: the block's loss, correct predictions and samples. In a divided last stage, only the first shard sets them. */
static gs_status score_block(gs_worker *w, const gs_dataset *set, size_t block, float stats[GS_STATS],
                             gs_ranking *ranking) {
    gs_pass pass;
    gs_mem logits, tail = gs_model_stats(w->model);
    bool scored = true;
    GS_TRY(forward_block(w, set, block, &pass, &logits, &scored));
    if (!has_stage(w)) {
        GS_TRY(w->device->ops->fill(w->device, tail, 0, GS_STATS));
        if (ranking) GS_TRY(rank_classes(w, logits, block * w->eval_block, pass.n, ranking));
        GS_TRY(gs_model_loss(w->model, &pass, logits, w->input.targets));
    }
    if (!scored || (has_stage(w) && w->groups.coordinates.tp > 0)) return GS_OK;
    return w->device->ops->read(w->device, stats, tail, GS_STATS * sizeof(float));
}

volatile sig_atomic_t gs_test_has_no_stop;

/* True if workers need each other within a block, as stages, shards of a layer, or owners of weights. */
static bool has_no_stop(const gs_worker *w) {
    return has_stage(w) || w->groups.layout.tp > 1 || w->settings->zero > 2;
}

/* True after a signal: the worker skips its remaining blocks, and `stats` carries the request to stop to the others. */
static bool stops_before(const gs_worker *w, float *stats) {
    if (!gs_stop_requested || has_no_stop(w)) return false;
    stats[GS_STAT_STOP] = 1;
    return true;
}

gs_status gs_evaluate(gs_worker *w, const gs_dataset *set, gs_score *score, gs_ranking *ranking) {
    size_t blocks = blocks_of(w, set);
    gs_comm *all = has_stage(w) ? w->comm : w->groups.comm[GS_DP];
    gs_shard mine = gs_shard_of(blocks, w->groups.coordinates.dp, w->groups.layout.dp);
    float *stats;
    GS_TRY(GS_NEW(stats, blocks * GS_STATS, "the scores of %zu blocks", blocks));
    gs_status status = GS_OK;
    if (w->comm->rank == 0 && has_no_stop(w)) gs_test_has_no_stop = 1;
    for (size_t b = mine.first; b < mine.first + mine.count && status == GS_OK; b++) {
        if (stops_before(w, stats + b * GS_STATS)) break;
        if (w->observer->testing) w->observer->testing(w->observer->context, b - mine.first, mine.count);
        status = score_block(w, set, b, stats + b * GS_STATS, ranking);
    }
    if (w->comm->rank == 0) gs_test_has_no_stop = 0;
    const bool one_less = mine.count < gs_shard_of(blocks, 0, w->groups.layout.dp).count;
    for (int run = 0; run < w->partition.runs && status == GS_OK && one_less && w->reducer_state; run++)
        if (w->reducer->join) status = w->reducer->join(w, run, &(gs_pass){.training = false}, false);

    /* The only synchronisation. It is exact, because one worker has a block's values, and all others add 0. */
    if (status == GS_OK) status = gs_comm_all_reduce(all, stats, blocks * GS_STATS, GS_F32, GS_SUM);
    size_t cells = (size_t)w->model->out.c * (size_t)w->model->out.c;
    if (status == GS_OK && ranking) status = gs_comm_all_reduce(all, &ranking->top, 1, GS_F64, GS_SUM);
    if (status == GS_OK && ranking && ranking->confusion)
        status = gs_comm_all_reduce(all, ranking->confusion, cells, GS_F64, GS_SUM);
    if (status == GS_OK && ranking && ranking->worst) status = gs_worst_of_all(all, ranking->worst);

    *score = (gs_score){0};
    for (size_t b = 0; b < blocks; b++) {
        score->loss += stats[b * GS_STATS + GS_STAT_LOSS];
        score->correct += stats[b * GS_STATS + GS_STAT_CORRECT];
        score->samples += stats[b * GS_STATS + GS_STAT_SAMPLES];
        score->stop |= stats[b * GS_STATS + GS_STAT_STOP] > 0;
    }
    free(stats);
    return status;
}

gs_status gs_evaluate_alone(gs_worker *w, gs_result *r) {
    gs_score score;
    GS_TRY(gs_comm_barrier(w->comm));
    const double start = gs_seconds();
    const size_t classes = (size_t)w->model->out.c;
    if (w->settings->confusion)
        GS_TRY(GS_NEW(r->confusion, classes * classes, "a confusion matrix of %zu classes", classes));
    r->classes = (int)classes;
    const bool ranks = !w->test_set->targets && r->classes > GS_TOP;
    gs_ranking ranking = {.confusion = r->confusion, .worst = r->confusion ? &r->worst : NULL};
    GS_TRY(gs_evaluate(w, w->test_set, &score, ranks || r->confusion ? &ranking : NULL));
    r->top_accuracy = ranks ? ranking.top / score.samples : NAN;
    r->samples_per_s = score.samples / gs_model_targets(w->model) / (gs_seconds() - start);
    r->test_loss = score.loss / score.samples;
    r->test_accuracy = score.correct / score.samples;
    return gs_check_inferred_loss(w, r->test_loss);
}

gs_status gs_predict(gs_worker *w, const gs_dataset *set, float *logits) {
    gs_shard mine = gs_shard_of(blocks_of(w, set), w->comm->rank, w->comm->size);
    size_t classes = gs_shape_size(w->model->out);
    for (size_t b = mine.first; b < mine.first + mine.count; b++) {
        gs_pass pass;
        gs_mem out;
        bool unused;
        if (w->observer->testing) w->observer->testing(w->observer->context, b - mine.first, mine.count);
        GS_TRY(forward_block(w, set, b, &pass, &out, &unused));
        float *to = logits + b * w->eval_block * classes;
        GS_TRY(w->device->ops->read(w->device, to, out, pass.n * classes * sizeof(float)));
        GS_TRY(gs_check_logits(w, to, b * w->eval_block, pass.n));
    }
    return GS_OK;
}
