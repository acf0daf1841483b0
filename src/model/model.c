#include "model/model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "core/philox.h"
#include "model/model_text.h"

/* ---- plan ---- */

static gs_status count_layer(gs_layer *l, void *context) {
    gs_model *m = context;
    m->param_count += l->params;
    m->flops_forward += l->flops;
    /* As much work as forward for dx, and again as much for dw and db. */
    m->flops_backward += l->flops * (l->needs_dx + (gs_layer_params(l) > 0));
    return GS_OK;
}

static gs_status collect_parameters(gs_layer *l, void *context) {
    gs_model *m = context;
    for (int i = 0; i < l->params; i++)
        if (!l->param[i].state) m->param[m->param_count++] = &l->param[i];
    return GS_OK;
}

static gs_status collect_state(gs_layer *l, void *context) {
    gs_model *m = context;
    for (int i = 0; i < l->params; i++)
        if (l->param[i].state) m->param[m->saved_count++] = &l->param[i];
    return GS_OK;
}

static gs_status plan(gs_model *m, gs_shape in) {
    m->scaling = GS_NOT_SCALED;
    GS_TRY(gs_layer_plan(m->net, in, &m->params));
    m->saved = m->params + gs_layer_states(m->net);
    m->in = in;
    m->out = m->net->out;

    GS_TRY(gs_layer_walk(m->net, count_layer, m));
    m->param = calloc((size_t)m->param_count + 1, sizeof(gs_param *));
    if (!m->param) return gs_fail(GS_E_MEMORY, "out of memory for a list of %d parameters", m->param_count);
    m->param_count = 0;
    GS_TRY(gs_layer_walk(m->net, collect_parameters, m));
    m->saved_count = m->param_count;
    return gs_layer_walk(m->net, collect_state, m);
}

/* Takes over both, and frees them if it fails. NULL: there was no memory for it. */
static gs_status plan_net(char *text, gs_layer *net, gs_shape in, gs_model **out) {
    *out = NULL;
    gs_model *m = calloc(1, sizeof *m);
    if (!m || !text || !net) {
        free(text);
        gs_layer_free(net);
        free(m);
        return gs_fail(GS_E_MEMORY, "out of memory for %s", net ? "a model" : "the layers of a model");
    }
    m->text = text;
    m->net = net;
    gs_status st = plan(m, in);
    if (st == GS_OK)
        *out = m;
    else
        gs_model_free(m);
    return st;
}

/* A text may have been read from a file of several lines; it is shown and saved as one. */
static void one_blank(char *text) {
    char *to = text;
    for (const char *from = text; *from; from++) {
        bool space = strchr(" \t\r\n", *from) != NULL;
        if (!space)
            *to++ = *from;
        else if (to > text && to[-1] != ' ')
            *to++ = ' ';
    }
    if (to > text && to[-1] == ' ') to--;
    *to = '\0';
}

gs_status gs_model_plan(const char *name_or_text, gs_shape in, gs_model **out) {
    gs_layer *net;
    char *text;
    *out = NULL;
    GS_TRY(gs_model_parse(name_or_text, &net));
    gs_status st = gs_model_full_text(name_or_text, &text);
    if (st != GS_OK) {
        gs_layer_free(net);
        return st;
    }
    one_blank(text);
    return plan_net(text, net, in, out);
}

gs_status gs_model_plan_net(gs_layer *net, gs_shape in, gs_model **out) {
    return plan_net(net ? gs_model_text_of(net) : NULL, net, in, out);
}

/* ---- create ---- */

static gs_status allocate(gs_model *m, size_t floats, gs_mem *out) {
    return m->device->ops->alloc(m->device, floats * sizeof(float), out);
}

static gs_status bind(gs_model *m) {
    GS_TRY(allocate(m, m->saved, &m->weights));
    GS_TRY(allocate(m, m->saved + GS_STATS, &m->gradients));
    GS_TRY(gs_layer_bind(m->net, m->device, m->weights, m->gradients, m->max_batch, false));
    size_t logits = m->max_batch * gs_shape_size(m->out);
    if (m->loss == GS_SOFTMAX_CROSS_ENTROPY) GS_TRY(allocate(m, logits, &m->probability));
    if (m->loss == GS_MEAN_SQUARED_ERROR) GS_TRY(allocate(m, logits, &m->target));
    return allocate(m, logits, &m->dlogits);
}

static gs_status write_initial_values(gs_model *m, uint64_t seed) {
    float *host = malloc((m->saved + 1) * sizeof *host);
    if (!host)
        return gs_fail(GS_E_MEMORY, "out of memory for the initial values of %zu parameters", m->params);
    gs_model_initial_values(m, seed, host);
    gs_status st = gs_model_write_weights(m, host);
    free(host);
    return st;
}

static gs_status create(gs_model *m, gs_device *device, size_t max_batch, gs_loss loss, uint64_t seed) {
    if (m->out.h != 1 || m->out.w != 1)
        return gs_fail(GS_E_SHAPE,
                       "the model ends with %s for each sample; a loss needs a flat vector with one "
                       "number per class: end with flatten and linear",
                       gs_shape_tuple(m->out).text);
    m->device = device;
    m->max_batch = max_batch;
    m->loss = loss;
    GS_TRY(bind(m));
    return write_initial_values(m, seed);
}

static gs_status create_or_free(gs_device *device, size_t max_batch, gs_loss loss, uint64_t seed,
                                gs_model **m) {
    gs_status st = create(*m, device, max_batch, loss, seed);
    if (st == GS_OK) return st;
    gs_model_free(*m);
    *m = NULL;
    return st;
}

gs_status gs_model_create(gs_device *device, const char *name_or_text, gs_shape in, size_t max_batch,
                          gs_loss loss, uint64_t seed, gs_model **out) {
    GS_TRY(gs_model_plan(name_or_text, in, out));
    return create_or_free(device, max_batch, loss, seed, out);
}

gs_status gs_model_create_net(gs_device *device, gs_layer *net, gs_shape in, size_t max_batch, gs_loss loss,
                              uint64_t seed, gs_model **out) {
    GS_TRY(gs_model_plan_net(net, in, out));
    return create_or_free(device, max_batch, loss, seed, out);
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
    for (int p = 0; p < m->saved_count; p++) {
        const gs_param *param = m->param[p];
        if (param->fan_in == 0) {
            for (size_t i = 0; i < param->count; i++) host[param->at + i] = param->initial;
            continue;
        }
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
    return m->device->ops->fill(m->device, m->gradients, 0, m->saved + GS_STATS);
}

gs_status gs_model_update_state(gs_model *m, double samples) {
    const gs_backend *ops = m->device->ops;
    gs_mem state = gs_at(m->weights, m->params);
    size_t count = m->saved - m->params;
    void *host;
    if (count == 0) return GS_OK;
    GS_TRY(ops->copy(m->device, state, gs_at(m->gradients, m->params), count));
    GS_TRY(ops->map(m->device, state, count * sizeof(float), &host));
    for (size_t i = 0; i < count; i++) ((float *)host)[i] /= (float)(samples / gs_model_answers(m));
    return ops->unmap(m->device, state, host);
}

gs_status gs_model_read_weights(gs_model *m, float *host) {
    return m->device->ops->read(m->device, host, m->weights, m->saved * sizeof *host);
}

gs_status gs_model_write_weights(gs_model *m, const float *host) {
    return m->device->ops->write(m->device, m->weights, host, m->saved * sizeof *host);
}
