/* Whole tensors of those that a tensor group divides: for files, --verify and checkpoints. Each member of the group
 * gets its part whole first, where stages or replicas have parts of that (gs_tensor_inner), and then they exchange
 * them. */
#include <stdlib.h>
#include <string.h>

#include "layer/tensor.h"
#include "train/internal.h"
#include "train/ways/tensor.h"

/* Of tensor i, of the rank that has most: the parts of a vocabulary differ. */
static size_t most_of(const gs_model *m, int i) {
    size_t most = 0;
    for (int r = 0; r < m->tensor.size; r++) {
        const size_t floats = gs_tensor_count(m->param[i], r, m->tensor.size);
        if (floats > most) most = floats;
    }
    return most;
}

/* Room for all parts of the largest of the first `count` tensors. */
static size_t room_of(const gs_model *m, int count) {
    size_t most = 0;
    for (int i = 0; i < count; i++)
        if (most_of(m, i) > most) most = most_of(m, i);
    return most * (size_t)m->tensor.size;
}

/* This worker's part of the first `count` tensors. */
static size_t own_of(const gs_model *m, int count) {
    size_t floats = 0;
    for (int i = 0; i < count; i++) floats += gs_tensor_count(m->param[i], m->tensor.rank, m->tensor.size);
    return floats;
}

bool gs_tensor_part_needs_order(const gs_model *m, int replicas) {
    bool equal = true;
    for (int i = 0; i < m->param_count && m->undivided; i++)
        for (int r = 0; r < m->tensor.size; r++)
            equal &= gs_tensor_count(m->param[i], r, m->tensor.size) == m->param[i]->count;
    return !equal && replicas > 2;
}

bool gs_tensor_needs_order(const gs_worker *w) {
    return gs_tensor_part_needs_order(w->model, w->groups.layout.dp);
}

/* Rank r's part of tensor i. Of what all hold it takes this worker's, so that --verify sees whether the others' is the
 * same. */
static void put_part(const gs_model *m, int i, int r, const float *from, float *whole) {
    if (m->param[i]->cut != GS_UNCUT || r == m->tensor.rank)
        gs_tensor_put(m->param[i], r, m->tensor.size, from, whole + m->undivided->param[i]->at);
}

/* As gs_model_read_weights, but some of them. */
static gs_status read_weights(const gs_model *m, size_t at, size_t bytes, float *to) {
    const gs_backend *ops = m->device->ops;
    if (bytes == 0) return GS_OK;
    GS_TRY(ops->read(m->device, to, gs_at(m->weights, at), bytes));
    return m->weights_away ? ops->put_away(m->device, m->weights_away + at, (gs_mem)GS_NONE, bytes, NULL)
                           : GS_OK;
}

/* Tensor i, of which own_part is what this worker has; NULL: that is in the device's weights, from `at` on. */
static gs_status put_tensor(gs_worker *w, int i, const float *own_part, size_t at, float *all, float *whole) {
    const gs_model *m = w->model;
    const size_t floats = most_of(m, i);
    float *own = all + floats * (size_t)m->tensor.rank;
    const size_t bytes = gs_tensor_count(m->param[i], m->tensor.rank, m->tensor.size) * sizeof *own;
    if (floats == 0) return GS_OK;
    if (own_part) memcpy(own, own_part, bytes);
    if (!own_part) GS_TRY(read_weights(m, at, bytes, own));
    GS_TRY(gs_comm_all_gather(w->groups.comm[GS_TP], own, all, floats, GS_F32));
    for (int r = 0; r < m->tensor.size && whole; r++) put_part(m, i, r, all + (size_t)r * floats, whole);
    return GS_OK;
}

static void drop(gs_worker *w, float *memory) {
    if (memory) gs_ledger_remove(&w->device->memory, memory);
    free(memory);
}

/* The first `count` tensors of the model, one after the other: of each there is room for all parts. mine: what this
 * worker has of them; NULL: they are the weights, and lie on the device. whole may be NULL. All of a group. */
static gs_status put_together(gs_worker *w, const float *mine, int count, float *whole) {
    const gs_model *m = w->model;
    float *all = gs_host_alloc(w, GS_MEMORY_COMMUNICATION, room_of(m, count) * sizeof *all);
    gs_status status = GS_OK;
    size_t at = 0;
    if (!all) return gs_fail(GS_E_MEMORY, "--tensor: no memory for whole tensors");
    for (int i = 0; i < count && status == GS_OK; i++) {
        status = put_tensor(w, i, mine ? mine + at : NULL, at, all, whole);
        at += gs_tensor_count(m->param[i], m->tensor.rank, m->tensor.size);
    }
    drop(w, all);
    return status;
}

static gs_status own(gs_worker *w, size_t floats, float **mine) {
    *mine = gs_host_alloc(w, GS_MEMORY_COMMUNICATION, floats * sizeof **mine);
    return *mine ? GS_OK : gs_fail(GS_E_MEMORY, "--tensor: no memory for %zu floats", floats);
}

gs_status gs_tensor_rehearse_weights(gs_worker *w) {
    const gs_way *inner = gs_tensor_inner(w->settings);
    const gs_model *m = w->model;
    float *mine = NULL, *all = NULL;
    gs_status status = inner && inner->weights ? own(w, own_of(m, m->saved_count), &mine) : GS_OK;
    if (status == GS_OK) status = own(w, room_of(m, m->saved_count), &all);
    drop(w, all);
    drop(w, mine);
    return status;
}

/* Where replicas divide a vector, the first of them has it whole, and goes on in its group. */
gs_status gs_tensor_gather(gs_worker *w, int i, float *whole) {
    const gs_way *inner = gs_tensor_inner(w->settings);
    const int tensors = w->model->param_count;
    const bool divided = inner && inner->gather, first = w->comm->rank < w->groups.layout.tp;
    float *mine;
    GS_TRY(own(w, own_of(w->model, tensors), &mine));
    gs_status status =
        divided ? inner->gather(w, i, first ? mine : NULL) : gs_optimizer_read_vector(w->optimizer, i, mine);
    if (status == GS_OK && (first || !divided)) status = put_together(w, mine, tensors, whole);
    drop(w, mine);
    return status;
}

gs_status gs_tensor_weights(gs_worker *w, float *host) {
    const gs_way *inner = gs_tensor_inner(w->settings);
    const gs_model *m = w->model;
    float *mine = NULL;
    if (!inner || !inner->weights) return put_together(w, NULL, m->saved_count, host);
    GS_TRY(own(w, own_of(m, m->saved_count), &mine));
    gs_status status = inner->weights(w, mine);
    if (status == GS_OK) status = put_together(w, mine, m->saved_count, host);
    drop(w, mine);
    return status;
}

/* Before create. */
gs_status gs_tensor_scatter(gs_worker *w, int i, const float *whole) {
    const gs_way *inner = gs_tensor_inner(w->settings);
    const gs_model *m = w->model;
    float *mine;
    GS_TRY(own(w, m->params, &mine));
    for (int k = 0; k < m->param_count; k++)
        gs_tensor_take(m->param[k], m->tensor.rank, m->tensor.size, mine + m->param[k]->at,
                       whole + m->undivided->param[k]->at);
    const gs_status status = inner && inner->scatter ? inner->scatter(w, i, mine)
                                                     : gs_optimizer_write_vector(w->optimizer, i, mine);
    drop(w, mine);
    return status;
}
