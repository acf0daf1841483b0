#include "model/model.h"

#include <math.h>
#include <stdlib.h>
#include "core/normal.h"
#include "core/philox.h"
#include "parallel/sequence.h"
#include "model/offload.h"
#include "model/model_text.h"

/* ---- plan ---- */

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

/* Make a text one line: texts from files may have several lines, but are shown and saved as one. */
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

static gs_status find_net(gs_model *m, const gs_model_config *w) {
    if (w->text) {
        GS_TRY(gs_model_parse(w->text, &m->net));
        GS_TRY(gs_model_full_text(w->text, &m->text));
        one_blank(m->text);
        return GS_OK;
    }
    m->net = w->net;
    m->text = m->net ? gs_model_text_of(m->net) : NULL;
    return m->text
               ? GS_OK
               : gs_fail(GS_E_MEMORY, "out of memory for %s", m->net ? "a model" : "the layers of a model");
}

static gs_status plan(gs_model *m, const gs_model_config *w) {
    GS_TRY(find_net(m, w));
    m->scaling = GS_NOT_SCALED;
    m->tensor = w->tensor;
    if (m->tensor.size > 0) GS_TRY(gs_tensor_divide(m->net, &m->tensor));
    GS_TRY(gs_layer_plan(m->net, w->in, &m->params));
    GS_TRY(gs_sequence_check_end(m->net));
    m->net->recompute = w->recompute;
    m->saved = m->params + gs_layer_states(m->net);
    m->in = w->in;
    m->out = m->net->out;

    const gs_layer_flops flops = gs_layer_flops_of(m->net);
    m->flops_forward = flops.forward;
    m->flops_backward = flops.backward;
    const size_t layers = gs_layer_count(m->net);
    GS_TRY(GS_NEW(m->param, layers * GS_LAYER_PARAMS, "the parameters of %zu layers", layers));
    GS_TRY(gs_layer_walk(m->net, collect_parameters, m));
    m->saved_count = m->param_count;
    GS_TRY(gs_layer_walk(m->net, collect_state, m));
    if (m->tensor.size < 2) return GS_OK;
    return gs_model_create(NULL, &(gs_model_config){.text = m->text, .in = w->in}, &m->undivided);
}

/* ---- create ---- */

static gs_status allocate(gs_model *m, size_t floats, gs_mem *out) {
    return gs_alloc(m->device, GS_MEMORY_ACTIVATIONS, floats * sizeof(float), out);
}

/* Allocate an array as long as the weights plus `more` floats. The ledger counts the layers' state in it as state. */
static gs_status allocate_like_weights(gs_model *m, gs_memory_kind kind, size_t more, gs_mem *out) {
    GS_TRY(gs_alloc(m->device, kind, (m->saved + more) * sizeof(float), out));
    gs_ledger_tail(&m->device->memory, out->base, GS_MEMORY_STATE, (m->saved - m->params) * sizeof(float));
    return GS_OK;
}

/* If operators cannot access offloaded memory, the layers' state stays on the device, and the weights are fetched into
 * windows (offload.h). */
static gs_status offload_weights(gs_model *m) {
    gs_device *d = m->device;
    const size_t state = (m->saved - m->params) * sizeof(float);
    void *host;
    GS_TRY(gs_alloc_offloaded(d, GS_MEMORY_WEIGHTS, m->saved * sizeof(float), &host));
    gs_ledger_tail(&d->memory, host, GS_MEMORY_STATE, state);
    m->offloaded_weights = host;
    if (d->ops->host_memory) {
        m->weights = d->ops->host_memory(host);
        return GS_OK;
    }
    m->weights_in_windows = true;
    GS_TRY(gs_alloc(d, GS_MEMORY_STATE, state, &m->weights));
    m->weights.at -= m->params; /* size_t wraps around */
    return GS_OK;
}

static gs_status bind(gs_model *m) {
    if (!m->replica && m->max_batch == 0) {
        m->has_loss = false; /* no buffers */
        return allocate_like_weights(m, GS_MEMORY_WEIGHTS, 0, &m->weights);
    }
    if (!m->replica && (m->device->offload & GS_OFFLOAD_WEIGHTS))
        GS_TRY(offload_weights(m));
    else if (!m->replica)
        GS_TRY(allocate_like_weights(m, GS_MEMORY_WEIGHTS, 0, &m->weights));
    if (!m->stage) GS_TRY(allocate_like_weights(m, GS_MEMORY_GRADIENTS, GS_STATS, &m->gradients));
    GS_TRY(gs_layer_bind(m->net, m->device, m->weights, m->gradients, m->max_batch, false));
    GS_TRY(gs_tensor_bind(m->net, m->max_batch));
    GS_TRY(gs_model_offload_create(m));
    if (!m->has_loss) return GS_OK;
    size_t logits = m->max_batch * gs_shape_size(m->out);
    if (m->loss == GS_SOFTMAX_CROSS_ENTROPY) GS_TRY(allocate(m, logits, &m->probability));
    if (m->loss == GS_MEAN_SQUARED_ERROR) GS_TRY(allocate(m, logits, &m->target));
    const size_t sums = (size_t)gs_model_targets(m) * (size_t)(m->tensor.size + 3);
    if (gs_tensor_outputs(m->net)) GS_TRY(allocate(m, m->max_batch * sums, &m->loss_sums));
    return allocate(m, logits, &m->dlogits);
}

static gs_status write_initial_values(gs_model *m, uint64_t seed) {
    float *host;
    if (!m->undivided && !m->offloaded_weights) { /* in place: a copy would be as big as the model */
        GS_TRY(gs_model_map_weights(m, &host));
        gs_model_initial_values(m, seed, host);
        return gs_model_unmap_weights(m, host);
    }
    GS_TRY(GS_NEW(host, gs_model_whole(m)->saved, "%zu initial values", m->params));
    gs_model_initial_values(gs_model_whole(m), seed, host);
    const gs_status st = gs_model_write_weights(m, host);
    free(host);
    return st;
}

static gs_status check_out(const gs_model *m) {
    if (!m->has_loss || (m->out.h == 1 && m->out.w == 1)) return GS_OK;
    return gs_fail(GS_E_SHAPE,
                   "the model ends with %s for each sample; a loss needs a flat vector with one "
                   "number per class: end with flatten and linear",
                   gs_shape_tuple(m->out).text);
}

static gs_status put_elsewhere(gs_layer *l, void *context) {
    (void)context;
    l->other_stage = true;
    return GS_OK;
}

/* Copy the members that a replica or a stage shares with `of`. */
static gs_status share(gs_model *m, const gs_model *of, int first, int last) {
    gs_layer *net = m->net;
    net->half_ends = of->net->half_ends;
    m->replica = true;
    m->weights = of->weights;
    m->label_smoothing = of->label_smoothing;
    m->knows_labels = of->knows_labels;
    if (last == 0) return GS_OK;
    if (first < 0 || first >= last || last > net->children)
        gs_bug("a stage of layers %d to %d, of %d", first, last - 1, net->children);
    for (int i = 0; i < net->children; i++)
        if (i < first || i >= last) GS_TRY(gs_layer_walk(net->child[i], put_elsewhere, NULL));
    m->in = net->child[first]->in;
    m->out = net->child[last - 1]->out;
    net->needs_dx = net->child[first]->needs_dx;
    m->stage = true;
    m->has_loss = last == net->children;
    m->gradients = of->gradients;
    return GS_OK;
}

static gs_status create(gs_model *m, gs_device *device, gs_model_config w) {
    const gs_model *of = w.of;
    if (of) {
        w.text = of->text;
        w.in = of->in;
        w.loss = of->loss;
        w.recompute = of->net->recompute;
        w.tensor = of->tensor;
    }
    GS_TRY(plan(m, &w));
    m->max_batch = w.max_batch;
    m->loss = w.loss;
    m->has_loss = true;
    if (of) GS_TRY(share(m, of, w.first, w.last));
    if (!device) return GS_OK;
    GS_TRY(check_out(m));
    m->device = device;
    GS_TRY(bind(m));
    return of || w.unset ? GS_OK : write_initial_values(m, w.seed);
}

gs_status gs_model_create(gs_device *device, const gs_model_config *config, gs_model **out) {
    *out = calloc(1, sizeof **out);
    if (!*out) gs_layer_free(config->net);
    if (!*out) return gs_fail(GS_E_MEMORY, "out of memory for a model");
    const gs_status status = create(*out, device, *config);
    if (status == GS_OK) return GS_OK;
    gs_model_free(*out);
    *out = NULL;
    return status;
}

void gs_model_free(gs_model *m) {
    if (!m) return;
    gs_model_offload_free(m);
    gs_layer_free(m->net);
    gs_model_free(m->undivided);
    if (m->device) {
        if (!m->replica) m->device->ops->free_offloaded(m->device, m->offloaded_weights);
        gs_mem own[] = {m->replica || (m->offloaded_weights && !m->weights_in_windows) ? GS_NONE : m->weights,
                        m->stage ? GS_NONE : m->gradients,
                        m->probability,
                        m->target,
                        m->dlogits,
                        m->loss_sums};
        for (size_t i = 0; i < sizeof own / sizeof *own; i++) m->device->ops->free(m->device, own[i]);
    }
    free(m->param);
    free(m->text);
    free(m);
}

/* ---- initial values ---- */

void gs_model_initial_values(const gs_model *m, uint64_t seed, float *host) {
    for (int p = 0; p < m->saved_count; p++) {
        const gs_param *param = m->param[p];
        if (param->fan_in == 0 && param->std == 0) {
            for (size_t i = 0; i < param->count; i++) host[param->at + i] = param->initial;
            continue;
        }
        const float k = param->fan_in > 0 ? 1.0f / sqrtf((float)param->fan_in) : 0;
        uint32_t word[4];
        for (size_t i = 0; i < param->count; i++) {
            if (i % 4 == 0) gs_philox(seed, gs_stream_hi(GS_STREAM_WEIGHTS, (uint64_t)p), i / 4, word);
            host[param->at + i] = param->std > 0 ? param->std * gs_normal(word[i % 4])
                                                 : k * (2.0f * gs_uniform(word[i % 4]) - 1.0f);
        }
    }
}
