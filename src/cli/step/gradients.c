/* What step.c of src/train/ does up to the sum, for one worker after the other on one replica: before the update all
 * replicas are the same. */
#include "cli/step/step.h"

#include <stdlib.h>

typedef struct maker {
    const gs_settings *settings;
    gs_dataset *set;
    gs_comm *alone;
    gs_worker worker;
    uint32_t *order;
} maker;

static gs_status check(const maker *m, int workers) {
    size_t batch = m->settings->batch;
    if (m->set->text)
        return gs_fail(GS_E_USAGE, "%s is a text: step shows the gradients of images", m->set->name);
    if (batch > m->set->count)
        return gs_fail(GS_E_USAGE, "--batch %zu is larger than the training set, which has %zu sample%s",
                       batch, m->set->count, gs_s(m->set->count));
    if (batch < (size_t)workers)
        return gs_fail(GS_E_USAGE, "--batch %zu is the global batch: it cannot be divided among %d workers",
                       batch, workers);
    return GS_OK;
}

/* Forward and backward over samples first .. first + n - 1 of the batch. */
static gs_status add_gradient(maker *m, size_t first, size_t n) {
    gs_worker *w = &m->worker;
    gs_pass pass = {.n = n, .training = true, .seed = m->settings->seed, .first = first};
    gs_mem logits;
    GS_TRY(gs_dataset_gather(m->set, m->order + first, 0, n, w->input.host_inputs, w->input.host_answers));
    GS_TRY(gs_worker_write(w, w->input.host_inputs, w->input.host_answers, n));
    GS_TRY(gs_model_forward(w->model, &pass, w->input.x, &logits));
    GS_TRY(gs_model_loss(w->model, &pass, logits, w->input.answers));
    return gs_model_backward(w->model, &pass, logits, w->input.answers);
}

static gs_status of_worker(maker *m, gs_step_gradients *g, int rank) {
    gs_shard mine = gs_shard_of(m->settings->batch, rank, g->workers);
    gs_device *d = m->worker.device;
    gs_model *model = m->worker.model;
    size_t most = m->worker.input.most;
    g->gradient[rank] = malloc(g->size * sizeof(float));
    if (!g->gradient[rank]) return gs_fail(GS_E_MEMORY, "no memory for the gradient of worker %d", rank);
    GS_TRY(gs_model_clear_gradients(model));
    for (size_t done = 0, n; done < mine.count; done += n) {
        n = mine.count - done < most ? mine.count - done : most;
        GS_TRY(add_gradient(m, mine.first + done, n));
    }
    return d->ops->read(d, g->gradient[rank], model->gradients, g->size * sizeof(float));
}

static gs_status check_labels(const maker *m, gs_step_gradients *g) {
    GS_TRY(gs_model_create(NULL, &(gs_model_wishes){.text = m->settings->model, .in = m->set->shape},
                           &g->model));
    int classes = (int)gs_shape_size(g->model->out);
    g->size = g->model->saved + GS_STATS;
    if (g->size > GS_STEP_PAGE_FLOATS)
        return gs_fail(GS_E_USAGE, "--model %s has %zu floats to sum; a page takes at most %d",
                       m->settings->model, g->size, GS_STEP_PAGE_FLOATS);
    return gs_dataset_check_labels(m->set, classes);
}

static gs_status make(maker *m, gs_step_gradients *g) {
    const gs_settings *s = m->settings;
    GS_TRY(gs_load_set(s, GS_TRAIN, &m->set));
    GS_TRY(check(m, g->workers));
    GS_TRY(check_labels(m, g));
    if (!(m->order = malloc(m->set->count * sizeof *m->order)))
        return gs_fail(GS_E_MEMORY, "no memory for the order of %zu samples", m->set->count);
    GS_TRY(gs_comm_world_create(1, NULL, s->timeout, &m->alone));
    GS_TRY(gs_worker_create(&m->worker, s, "cpu", m->alone, s->threads, gs_dataset_scaling(m->set), m->set,
                            NULL));
    gs_epoch_order(s->seed, 1, m->set->count, m->order);
    for (int r = 0; r < g->workers; r++) GS_TRY(of_worker(m, g, r));
    return GS_OK;
}

gs_status gs_step_gradients_create(const gs_settings *settings, int workers, gs_step_gradients *out) {
    maker m = {.settings = settings};
    *out = (gs_step_gradients){.workers = workers};
    gs_status status = make(&m, out);
    if (status != GS_OK) gs_step_gradients_free(out);
    gs_worker_free(&m.worker);
    gs_comm_free(m.alone);
    gs_dataset_free(m.set);
    free(m.order);
    return status;
}

void gs_step_gradients_free(gs_step_gradients *g) {
    gs_model_free(g->model);
    for (int r = 0; r < g->workers; r++) free(g->gradient[r]);
    *g = (gs_step_gradients){0};
}
