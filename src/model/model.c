#include "model/model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "core/philox.h"
#include "model/model_text.h"

/* ---- plan ---- */

static gs_status count_layer(gs_layer *l, void *context) {
    gs_model *m = context;
    bool learns = l->weight.count > 0 || l->bias.count > 0;
    m->param_count += (l->weight.count > 0) + (l->bias.count > 0);
    m->flops_forward += l->flops;
    /* As much work as forward for dx, and again as much for dw and db. */
    m->flops_backward += l->flops * (l->needs_dx + learns);
    return GS_OK;
}

static gs_status collect_parameters(gs_layer *l, void *context) {
    gs_model *m = context;
    if (l->weight.count > 0) m->param[m->param_count++] = &l->weight;
    if (l->bias.count > 0) m->param[m->param_count++] = &l->bias;
    return GS_OK;
}

static gs_status plan(gs_model *m, const char *name_or_text, gs_shape in) {
    m->scaling = (gs_scaling){0, 1};
    m->text = strdup(gs_model_text(name_or_text));
    if (!m->text) return gs_fail(GS_E_MEMORY, "out of memory for the text of a model");
    GS_TRY(gs_model_parse(m->text, &m->net));
    GS_TRY(gs_layer_plan(m->net, in, &m->params));
    m->in = in;
    m->out = m->net->out;

    GS_TRY(gs_layer_walk(m->net, count_layer, m));
    m->param = calloc((size_t)m->param_count + 1, sizeof(gs_param *));
    if (!m->param) return gs_fail(GS_E_MEMORY, "out of memory for a list of %d parameters", m->param_count);
    m->param_count = 0;
    return gs_layer_walk(m->net, collect_parameters, m);
}

gs_status gs_model_plan(const char *name_or_text, gs_shape in, gs_model **out) {
    *out = NULL;
    gs_model *m = calloc(1, sizeof *m);
    if (!m) return gs_fail(GS_E_MEMORY, "out of memory for a model");
    gs_status st = plan(m, name_or_text, in);
    if (st == GS_OK)
        *out = m;
    else
        gs_model_free(m);
    return st;
}

/* ---- create ---- */

static gs_status allocate(gs_model *m, size_t floats, gs_mem *out) {
    return m->device->ops->alloc(m->device, floats * sizeof(float), out);
}

static gs_status bind(gs_model *m) {
    GS_TRY(allocate(m, m->params, &m->weights));
    GS_TRY(allocate(m, m->params + GS_STATS, &m->gradients));
    GS_TRY(gs_layer_bind(m->net, m->device, m->weights, m->gradients, m->max_batch, false));
    size_t logits = m->max_batch * gs_shape_size(m->out);
    GS_TRY(allocate(m, logits, m->loss == GS_SOFTMAX_CROSS_ENTROPY ? &m->probability : &m->target));
    return allocate(m, logits, &m->dlogits);
}

static gs_status write_initial_values(gs_model *m, uint64_t seed) {
    float *host = malloc((m->params + 1) * sizeof *host);
    if (!host)
        return gs_fail(GS_E_MEMORY, "out of memory for the initial values of %zu parameters", m->params);
    gs_model_initial_values(m, seed, host);
    gs_status st = gs_model_write_weights(m, host);
    free(host);
    return st;
}

static gs_status create(gs_model *m, gs_device *device, size_t max_batch, gs_loss loss, uint64_t seed) {
    if (m->out.h != 1 || m->out.w != 1)
        return gs_fail(
            GS_E_SHAPE,
            "the model ends with (%d,%d,%d) for each sample; a loss wants a flat vector with a number "
            "for each class: end with flatten and linear",
            m->out.c, m->out.h, m->out.w);
    m->device = device;
    m->max_batch = max_batch;
    m->loss = loss;
    GS_TRY(bind(m));
    return write_initial_values(m, seed);
}

gs_status gs_model_create(gs_device *device, const char *name_or_text, gs_shape in, size_t max_batch,
                          gs_loss loss, uint64_t seed, gs_model **out) {
    GS_TRY(gs_model_plan(name_or_text, in, out));
    gs_status st = create(*out, device, max_batch, loss, seed);
    if (st == GS_OK) return st;
    gs_model_free(*out);
    *out = NULL;
    return st;
}

void gs_model_free(gs_model *m) {
    if (!m) return;
    gs_layer_free(m->net);
    if (m->device) {
        gs_mem own[] = {m->weights, m->gradients, m->probability, m->target, m->dlogits};
        for (size_t i = 0; i < sizeof own / sizeof *own; i++) m->device->ops->free(m->device, own[i]);
    }
    free(m->param);
    free(m->text);
    free(m);
}

/* ---- use ---- */

void gs_model_initial_values(const gs_model *m, uint64_t seed, float *host) {
    for (int p = 0; p < m->param_count; p++) {
        const gs_param *param = m->param[p];
        float k = 1.0f / sqrtf((float)param->fan_in);
        uint32_t word[4];
        for (size_t i = 0; i < param->count; i++) {
            if (i % 4 == 0) gs_philox(seed, gs_stream_hi(GS_STREAM_WEIGHTS, (uint64_t)p), i / 4, word);
            host[param->at + i] = k * (2.0f * gs_uniform(word[i % 4]) - 1.0f);
        }
    }
}

gs_status gs_model_forward(gs_model *m, const gs_pass *pass, gs_mem x, gs_mem *logits) {
    if (pass->n > m->max_batch) gs_bug("%zu samples for a model made for %zu", pass->n, m->max_batch);
    return gs_layer_forward(m->net, pass, x, logits);
}

gs_status gs_model_clear_stats(gs_model *m) {
    return m->device->ops->fill(m->device, gs_model_stats(m), 0, GS_STATS);
}

gs_status gs_model_clear_gradients(gs_model *m) {
    return m->device->ops->fill(m->device, m->gradients, 0, m->params + GS_STATS);
}

gs_status gs_model_read_weights(gs_model *m, float *host) {
    return m->device->ops->read(m->device, host, m->weights, m->params * sizeof *host);
}

gs_status gs_model_write_weights(gs_model *m, const float *host) {
    return m->device->ops->write(m->device, m->weights, host, m->params * sizeof *host);
}
