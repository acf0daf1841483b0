/* Whole tensors of those that a tensor group divides: for files, --verify and checkpoints. Each member of the group
 * gets its part whole first, where stages or replicas have parts of that (gs_tensor_inner), and then they exchange
 * them. */
#include <stdlib.h>

#include "layer/tensor.h"
#include "train/internal.h"
#include "train/ways/tensor.h"

/* The floats of the first `count` tensors, of the rank that has most: the parts of a vocabulary differ. */
static size_t most_floats(const gs_model *m, int count) {
    size_t most = 0;
    for (int r = 0; r < m->tensor.size; r++) {
        size_t floats = 0;
        for (int i = 0; i < count; i++) floats += gs_tensor_count(m->param[i], r, m->tensor.size);
        if (floats > most) most = floats;
    }
    return most;
}

bool gs_tensor_part_needs_order(const gs_model *m, int replicas) {
    bool equal = true;
    for (int i = 0; i < m->param_count && m->undivided; i++)
        for (int r = 0; r < m->tensor.size; r++)
            equal &= gs_tensor_count(m->param[i], r, m->tensor.size) == m->param[i]->count;
    return !equal && replicas > 2;
}

bool gs_tensor_needs_order(const gs_worker *w) {
    return gs_tensor_part_needs_order(w->model, gs_tensor_replicas(w));
}

/* Rank r's part. Of what all hold it takes this worker's, so that --verify sees whether the others' is the same. */
static void put_part(const gs_model *m, int r, const float *from, int count, float *whole) {
    for (int i = 0; i < count; i++) {
        if (m->param[i]->cut != GS_UNCUT || r == m->tensor.rank)
            gs_tensor_put(m->param[i], r, m->tensor.size, from, whole + m->undivided->param[i]->at);
        from += gs_tensor_count(m->param[i], r, m->tensor.size);
    }
}

/* The first `count` tensors of the model, of which `mine` is this worker's part, in an array that `own` has made; whole
 * may be NULL. All of a group. */
static gs_status put_together(gs_worker *w, const float *mine, int count, float *whole) {
    const gs_model *m = w->model;
    const int size = w->group->size;
    const size_t floats = most_floats(m, count);
    float *all = malloc(floats * (size_t)size * sizeof *all + 1);
    gs_status status = all ? GS_OK : gs_fail(GS_E_MEMORY, "--tensor: no memory for whole tensors");
    if (status == GS_OK && floats > 0) status = gs_comm_all_gather(w->group, mine, all, floats, GS_F32);
    for (int r = 0; r < size && status == GS_OK && whole; r++)
        put_part(m, r, all + (size_t)r * floats, count, whole);
    free(all);
    return status;
}

static gs_status own(size_t floats, float **mine) {
    *mine = calloc(floats + 1, sizeof **mine);
    return *mine ? GS_OK : gs_fail(GS_E_MEMORY, "--tensor: no memory for %zu floats", floats);
}

/* Where replicas divide a vector, the first of them has it whole, and goes on in its group. */
gs_status gs_tensor_gather(gs_worker *w, int i, float *whole) {
    const gs_way *inner = gs_tensor_inner(w->settings);
    const int tensors = w->model->param_count;
    const bool divided = inner && inner->gather, first = w->replicas->rank == 0;
    float *mine;
    GS_TRY(own(most_floats(w->model, tensors), &mine));
    gs_status status =
        divided ? inner->gather(w, i, first ? mine : NULL) : gs_optimizer_read_vector(w->optimizer, i, mine);
    if (status == GS_OK && (first || !divided)) status = put_together(w, mine, tensors, whole);
    free(mine);
    return status;
}

gs_status gs_tensor_weights(gs_worker *w, float *host) {
    const gs_way *inner = gs_tensor_inner(w->settings);
    const gs_model *m = w->model;
    float *mine;
    GS_TRY(own(most_floats(m, m->saved_count), &mine));
    gs_status status =
        inner && inner->weights ? inner->weights(w, mine) : gs_model_read_weights(w->model, mine);
    if (status == GS_OK) status = put_together(w, mine, m->saved_count, host);
    free(mine);
    return status;
}

/* Before create. */
gs_status gs_tensor_scatter(gs_worker *w, int i, const float *whole) {
    const gs_way *inner = gs_tensor_inner(w->settings);
    const gs_model *m = w->model;
    float *mine;
    GS_TRY(own(m->params, &mine));
    for (int k = 0; k < m->param_count; k++)
        gs_tensor_take(m->param[k], m->tensor.rank, m->tensor.size, mine + m->param[k]->at,
                       whole + m->undivided->param[k]->at);
    const gs_status status = inner && inner->scatter ? inner->scatter(w, i, mine)
                                                     : gs_optimizer_write_vector(w->optimizer, i, mine);
    free(mine);
    return status;
}
