#include "train/train.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

/* Workers that were started with different options would sum gradients of different models, and the weights
 * would drift apart without a word. So before the first step every rank shows what it is about to do. */
typedef struct gs_agreement {
    uint64_t params, batch, epochs, steps, seed, samples, verify;
    uint64_t lr_rule, base_batch, record, trace_first, trace_last;
    double lr, momentum, weight_decay, warmup, slow_ms;
    uint32_t model, loss, data, weights, exact, accumulate, slow_rank, every, staleness, wire, bucket;
    char sync[32], model_begins[64]; /* cut off: the checksum of the whole decides */
} gs_agreement;

static uint32_t checksum(const void *data, size_t bytes) {
    return (uint32_t)crc32_z(0, data, bytes);
}

static uint32_t checksum_of_text(const char *text) {
    return checksum(text, strlen(text));
}

static gs_status checksum_of_weights(gs_worker *w, uint32_t *sum) {
    float *host = malloc(w->model->params * sizeof(float) + 1);
    if (!host) return gs_fail(GS_E_MEMORY, "no memory for %zu weights", w->model->params);
    gs_status status = gs_model_read_weights(w->model, host);
    *sum = checksum(host, w->model->params * sizeof(float));
    free(host);
    return status;
}

static gs_status agreement_of(gs_worker *w, gs_agreement *a) {
    const gs_settings *s = w->settings;
    const gs_dataset *data = w->train_set ? w->train_set : w->test_set;
    memset(a, 0, sizeof *a); /* padding too: the whole struct travels */
    a->params = w->model->params;
    a->batch = w->batch;
    a->epochs = (uint64_t)s->epochs;
    a->steps = s->steps;
    a->seed = s->seed;
    a->samples = data->count;
    a->lr = (double)s->lr;
    a->momentum = (double)s->momentum;
    a->weight_decay = (double)s->weight_decay;
    a->lr_rule = (uint64_t)s->lr_rule;
    a->base_batch = s->base_batch ? s->base_batch : GS_BASE_BATCH;
    a->warmup = s->warmup;
    a->model = checksum_of_text(w->model->text);
    snprintf(a->model_begins, sizeof a->model_begins, "%s", w->model->text);
    snprintf(a->sync, sizeof a->sync, "%s", s->sync);
    a->loss = (uint32_t)s->loss;
    a->exact = s->exact;
    a->verify = s->verify;
    a->record = s->record;
    a->trace_first = s->trace_first;
    a->trace_last = s->trace_last;
    a->accumulate = (uint32_t)s->accumulate;
    a->every = (uint32_t)s->every;
    a->staleness = (uint32_t)s->staleness;
    a->wire = (uint32_t)s->wire;
    a->bucket = (uint32_t)s->bucket;
    a->slow_rank = (uint32_t)s->slow.rank;
    a->slow_ms = s->slow.ms;
    a->data = checksum(data->labels, data->count) ^
              checksum(data->images, data->count * gs_shape_size(data->shape));
    return checksum_of_weights(w, &a->weights);
}

static gs_status differ(int rank, const char *what, uint64_t theirs, uint64_t first) {
    return gs_fail(GS_E_USAGE,
                   "rank %d has another %s than rank 0 (%" PRIu64 ", not %" PRIu64
                   "): all must be started with the same options",
                   rank, what, theirs, first);
}

static gs_status differ_in_text(int rank, const char *what, const char *theirs, const char *first) {
    return gs_fail(
        GS_E_USAGE,
        "rank %d has another %s than rank 0 (%s, not %s): all must be started with the same options", rank,
        what, theirs, first);
}

/* With as many digits as it takes to see the difference. */
static gs_status differ_in_number(int rank, const char *what, double theirs, double first) {
    char their_text[32], first_text[32];
    int digits = 6;
    do {
        snprintf(their_text, sizeof their_text, "%.*g", digits, theirs);
        snprintf(first_text, sizeof first_text, "%.*g", digits, first);
    } while (strcmp(their_text, first_text) == 0 && ++digits <= 17);
    return differ_in_text(rank, what, their_text, first_text);
}

static gs_status differ_in_checksum(int rank, const char *what, uint32_t theirs, uint32_t first) {
    char their_text[32], first_text[32];
    snprintf(their_text, sizeof their_text, "checksum %08x", theirs);
    snprintf(first_text, sizeof first_text, "%08x", first);
    return differ_in_text(rank, what, their_text, first_text);
}

static bool unequal(double a, double b) {
    return a < b || a > b;
}

static const char *loss_name(uint32_t loss) {
    return loss == GS_SOFTMAX_CROSS_ENTROPY ? "cross_entropy" : "squared_error";
}

static gs_status compare_slow(int rank, const gs_agreement *a, const gs_agreement *first) {
    char theirs[48], firsts[48];
    if (a->slow_rank == first->slow_rank && !unequal(a->slow_ms, first->slow_ms)) return GS_OK;
    snprintf(theirs, sizeof theirs, "%u:%g", a->slow_rank, a->slow_ms);
    snprintf(firsts, sizeof firsts, "%u:%g", first->slow_rank, first->slow_ms);
    return differ_in_text(rank, "--slow", theirs, firsts);
}

static gs_status compare_trace(int rank, const gs_agreement *a, const gs_agreement *first) {
    char theirs[48], firsts[48];
    if (a->trace_first == first->trace_first && a->trace_last == first->trace_last) return GS_OK;
    snprintf(theirs, sizeof theirs, "%" PRIu64 "-%" PRIu64, a->trace_first, a->trace_last);
    snprintf(firsts, sizeof firsts, "%" PRIu64 "-%" PRIu64, first->trace_first, first->trace_last);
    return differ_in_text(rank, "--trace-steps", theirs, firsts);
}

static gs_status compare(int rank, const gs_agreement *a, const gs_agreement *first) {
    if (a->samples != first->samples)
        return differ(rank, "number of samples (--data)", a->samples, first->samples);
    if (a->data != first->data) return differ_in_checksum(rank, "content of --data", a->data, first->data);
    if (a->model != first->model)
        return differ_in_text(rank, "--model", a->model_begins, first->model_begins);
    if (a->params != first->params) return differ(rank, "number of parameters", a->params, first->params);
    if (a->batch != first->batch) return differ(rank, "--batch", a->batch, first->batch);
    if (a->epochs != first->epochs) return differ(rank, "--epochs", a->epochs, first->epochs);
    if (a->steps != first->steps) return differ(rank, "--steps", a->steps, first->steps);
    if (a->seed != first->seed) return differ(rank, "--seed", a->seed, first->seed);
    if (a->accumulate != first->accumulate)
        return differ(rank, "--accumulate", a->accumulate, first->accumulate);
    if (a->every != first->every) return differ(rank, "--every", a->every, first->every);
    if (a->staleness != first->staleness) return differ(rank, "--staleness", a->staleness, first->staleness);
    if (a->bucket != first->bucket) return differ(rank, "--bucket", a->bucket, first->bucket);
    if (a->wire != first->wire)
        return gs_fail(GS_E_USAGE,
                       "rank %d has --wire %s, rank 0 %s: all must be started with the same options", rank,
                       gs_wire_name((gs_wire)a->wire), gs_wire_name((gs_wire)first->wire));
    GS_TRY(compare_slow(rank, a, first));
    if (a->verify != first->verify) return differ(rank, "--verify", a->verify, first->verify);
    if (a->record != first->record)
        return gs_fail(GS_E_USAGE,
                       "rank %d runs %s --log, rank 0 %s it: all must be started with the same options", rank,
                       a->record ? "with" : "without", first->record ? "with" : "without");
    GS_TRY(compare_trace(rank, a, first));
    if (unequal(a->lr, first->lr)) return differ_in_number(rank, "--lr", a->lr, first->lr);
    if (a->lr_rule != first->lr_rule)
        return gs_fail(GS_E_USAGE,
                       "rank %d has --lr-rule %s, rank 0 %s: all must be started with the same options", rank,
                       gs_lr_rule_name((gs_lr_rule)a->lr_rule), gs_lr_rule_name((gs_lr_rule)first->lr_rule));
    if (a->base_batch != first->base_batch)
        return differ(rank, "--base-batch", a->base_batch, first->base_batch);
    if (unequal(a->warmup, first->warmup))
        return differ_in_number(rank, "--warmup", a->warmup, first->warmup);
    if (unequal(a->momentum, first->momentum))
        return differ_in_number(rank, "--momentum", a->momentum, first->momentum);
    if (unequal(a->weight_decay, first->weight_decay))
        return differ_in_number(rank, "--weight-decay", a->weight_decay, first->weight_decay);
    if (strcmp(a->sync, first->sync) != 0) return differ_in_text(rank, "--sync", a->sync, first->sync);
    if (a->exact != first->exact)
        return gs_fail(GS_E_USAGE,
                       "rank %d runs %s --exact, rank 0 %s it: all must be started with the same options",
                       rank, a->exact ? "with" : "without", first->exact ? "with" : "without");
    if (a->loss != first->loss)
        return differ_in_text(rank, "--loss", loss_name(a->loss), loss_name(first->loss));
    if (a->weights != first->weights)
        return differ_in_checksum(rank, "set of initial weights (--load)", a->weights, first->weights);
    return GS_OK;
}

gs_status gs_agree(gs_worker *w, bool *found_by_all) {
    *found_by_all = false;
    if (w->comm->size == 1) return GS_OK;
    gs_agreement mine, *all = calloc((size_t)w->comm->size, sizeof *all);
    if (!all) return gs_fail(GS_E_MEMORY, "no memory for the settings of %d ranks", w->comm->size);
    gs_status status = agreement_of(w, &mine);
    if (status == GS_OK) status = w->comm->ops->all_gather(w->comm, &mine, all, sizeof mine, GS_U8);
    *found_by_all = status == GS_OK;
    for (int rank = 1; rank < w->comm->size && status == GS_OK; rank++)
        status = compare(rank, &all[rank], &all[0]);
    free(all);
    return status;
}
