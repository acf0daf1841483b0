/* What step.c of src/train/ does up to the sum, for one worker after the other on one replica: before the update all
 * replicas are the same. */
#include "cli/step/step.h"

#include <stdlib.h>

typedef struct maker {
    const gs_settings *settings;
    gs_dataset *set;
    gs_device *device;
    uint32_t *order;
    unsigned char *images;
    int32_t *labels;
    gs_mem bytes, x, y; /* (most, c, h, w) uint8, the same as f32, most labels */
    size_t most;        /* samples at once */
} maker;

static gs_status check(const maker *m, int workers) {
    size_t batch = m->settings->batch;
    if (batch > m->set->count)
        return gs_fail(GS_E_USAGE, "--batch %zu is larger than the training set, which has %zu sample%s",
                       batch, m->set->count, gs_s(m->set->count));
    if (batch < (size_t)workers)
        return gs_fail(GS_E_USAGE, "--batch %zu is the global batch: it cannot be divided among %d workers",
                       batch, workers);
    return GS_OK;
}

static gs_status make_buffers(maker *m) {
    const gs_backend *ops = m->device->ops;
    size_t features = gs_shape_size(m->set->shape);
    m->images = malloc(m->most * features);
    m->labels = malloc(m->most * sizeof *m->labels);
    m->order = malloc(m->set->count * sizeof *m->order);
    if (!m->images || !m->labels || !m->order) return gs_fail(GS_E_MEMORY, "no memory for a batch");
    GS_TRY(ops->alloc(m->device, m->most * features, &m->bytes));
    GS_TRY(ops->alloc(m->device, m->most * features * sizeof(float), &m->x));
    return ops->alloc(m->device, m->most * sizeof *m->labels, &m->y);
}

/* Forward and backward over samples first .. first + n - 1 of the batch. */
static gs_status add_gradient(maker *m, gs_model *model, size_t first, size_t n) {
    const gs_backend *ops = m->device->ops;
    size_t values = n * gs_shape_size(m->set->shape);
    gs_pass pass = {.n = n, .training = true, .seed = m->settings->seed, .first = first};
    gs_scaling s = model->scaling;
    gs_mem logits;
    gs_dataset_gather(m->set, m->order + first, 0, n, m->images, m->labels);
    GS_TRY(ops->write(m->device, m->bytes, m->images, values));
    GS_TRY(ops->write(m->device, m->y, m->labels, n * sizeof *m->labels));
    GS_TRY(ops->bytes_to_float(m->device, m->x, m->bytes, 1.0f / (255.0f * s.std), -s.mean / s.std, values));
    GS_TRY(gs_model_forward(model, &pass, m->x, &logits));
    GS_TRY(gs_model_loss(model, &pass, logits, m->y));
    return gs_model_backward(model, &pass, logits, m->y);
}

static gs_status of_worker(maker *m, gs_step_gradients *g, int rank) {
    gs_shard mine = gs_shard_of(m->settings->batch, rank, g->workers);
    g->gradient[rank] = malloc(g->size * sizeof(float));
    if (!g->gradient[rank]) return gs_fail(GS_E_MEMORY, "no memory for the gradient of worker %d", rank);
    GS_TRY(gs_model_clear_gradients(g->model));
    for (size_t done = 0; done < mine.count; done += m->most) {
        size_t n = mine.count - done < m->most ? mine.count - done : m->most;
        GS_TRY(add_gradient(m, g->model, mine.first + done, n));
    }
    return m->device->ops->read(m->device, g->gradient[rank], g->model->gradients, g->size * sizeof(float));
}

static gs_status check_labels(const maker *m) {
    gs_model *plan;
    GS_TRY(gs_model_plan(m->settings->model, m->set->shape, &plan));
    int classes = (int)gs_shape_size(plan->out);
    size_t size = plan->saved + GS_STATS;
    gs_model_free(plan);
    if (size > GS_STEP_PAGE_FLOATS)
        return gs_fail(GS_E_USAGE, "--model %s has %zu floats to sum; a page takes at most %d",
                       m->settings->model, size, GS_STEP_PAGE_FLOATS);
    return gs_dataset_check_labels(m->set, classes);
}

static gs_status make(maker *m, gs_step_gradients *g) {
    const gs_settings *s = m->settings;
    gs_model *bound;
    GS_TRY(gs_dataset_load(s->data, GS_TRAIN, &m->set));
    GS_TRY(check(m, g->workers));
    GS_TRY(check_labels(m));
    m->most = gs_shard_of(s->batch, 0, g->workers).count;
    if (m->most > GS_MICRO_BATCH) m->most = GS_MICRO_BATCH;
    GS_TRY(gs_device_open("cpu", s->threads, &m->device));
    GS_TRY(make_buffers(m));
    GS_TRY(gs_model_create(m->device, s->model, m->set->shape, m->most, s->loss, s->seed, &bound));
    bound->scaling = gs_dataset_scaling(m->set);
    g->model = bound;
    g->size = bound->saved + GS_STATS;
    gs_epoch_order(s->seed, 1, m->set->count, m->order);
    gs_status status = GS_OK;
    for (int r = 0; r < g->workers && status == GS_OK; r++) status = of_worker(m, g, r);
    g->model = NULL; /* its device is about to be closed: only the plan stays */
    if (status == GS_OK) status = gs_model_plan(s->model, m->set->shape, &g->model);
    gs_model_free(bound);
    return status;
}

gs_status gs_step_gradients_create(const gs_settings *settings, int workers, gs_step_gradients *out) {
    maker m = {.settings = settings};
    *out = (gs_step_gradients){.workers = workers};
    gs_status status = make(&m, out);
    if (status != GS_OK) gs_step_gradients_free(out);
    if (m.device) {
        m.device->ops->free(m.device, m.bytes);
        m.device->ops->free(m.device, m.x);
        m.device->ops->free(m.device, m.y);
    }
    gs_device_close(m.device);
    gs_dataset_free(m.set);
    free(m.order);
    free(m.images);
    free(m.labels);
    return status;
}

void gs_step_gradients_free(gs_step_gradients *g) {
    gs_model_free(g->model);
    for (int r = 0; r < g->workers; r++) free(g->gradient[r]);
    *g = (gs_step_gradients){0};
}
