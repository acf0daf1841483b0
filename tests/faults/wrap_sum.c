/* Mistakes in the sum over the workers, and in its terms. */
#include <math.h>
#include <stdlib.h>

#include "tests/faults/wraps.h"

static double norm(const float *x, size_t count) {
    double squares = 0;
    for (size_t i = 0; i < count; i++) squares += (double)x[i] * (double)x[i];
    return sqrt(squares);
}

static void multiply(float *x, size_t count, float factor) {
    for (size_t i = 0; i < count; i++) x[i] *= factor;
}

static void round_to_bf16(float *x, size_t count) {
    for (size_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        bits &= 0xffff0000u;
        memcpy(&x[i], &bits, sizeof bits);
    }
}

/* ---- before and after the sum ---- */

static void before(const gs_worker *w, float *x) {
    const gs_model *m = w->model;
    const double samples = (double)x[m->saved + GS_STAT_SAMPLES], length = norm(x, m->params) / samples;
    if (is_on_rank_1(RANK_MISSING)) multiply(x, m->params, 0);
    if (is_on_rank_1(RANK_TWICE)) multiply(x, m->params, 2);
    if (is_on(ROUNDED_SUM)) round_to_bf16(x, m->params);
    if (is_on(CLIPPED_BEFORE) && length > (double)w->settings->clip)
        multiply(x, m->params, (float)((double)w->settings->clip / length));
}

/* own: what this rank contributed. */
static gs_status after(gs_worker *w, float *x, float *own) {
    const gs_model *m = w->model;
    const size_t bytes = m->params * sizeof *x, tensor = m->param[2]->at;
    if (is_on(SUMMED_TWICE)) GS_TRY(gs_comm_all_reduce(w->comm, x, m->params, GS_F32, GS_SUM));
    if (is_on(MEAN_FOR_SUM)) multiply(x, m->params, 1 / (float)fault_workers());
    if (is_on(NOT_SUMMED)) memcpy(x, own, bytes);
    if (is_on(BUCKET_MISSED)) memcpy(x, own, tensor * sizeof *x);
    if (is_on_rank_1(SUM_CHANGED)) x[tensor] += 1;
    if (is_on(WITHIN_GROUP)) { /* pairs of neighbouring ranks */
        memcpy(x, own, bytes);
        GS_TRY(gs_comm_send(w->comm, own, bytes, w->comm->rank ^ 1));
        GS_TRY(gs_comm_recv(w->comm, own, bytes, w->comm->rank ^ 1));
        for (size_t i = 0; i < m->params; i++) x[i] += own[i];
    }
    /* This rank keeps its old running statistics. */
    for (size_t i = m->params; i < m->saved && is_on_rank_1(STATE_OF_RANKS); i++)
        x[i] = fault_floats(m->weights)[i] * x[m->saved + GS_STAT_SAMPLES];
    return GS_OK;
}

gs_status __wrap_gs_sync_sum(gs_sync *s, gs_device *d, gs_mem data, size_t count) {
    gs_worker *w = fault_worker;
    if (fault_on == NO_FAULT || !w || s->comm->size == 1) return __real_gs_sync_sum(s, d, data, count);
    before(w, fault_floats(data));
    float *own = malloc(count * sizeof *own);
    if (!own) return gs_fail(GS_E_MEMORY, "no memory");
    memcpy(own, fault_floats(data), count * sizeof *own);
    gs_status status = __real_gs_sync_sum(s, d, data, count);
    if (status == GS_OK) status = after(w, fault_floats(data), own);
    free(own);
    return status;
}

/* ---- after each pass ---- */

static _Thread_local int pass_number;

gs_status fault_after_backward(gs_model *m, const gs_pass *pass,
                               gs_status (*backward)(gs_model *, const gs_pass *, gs_mem, gs_mem),
                               gs_mem logits, gs_mem targets) {
    gs_worker *w = fault_worker;
    if (pass->fresh) pass_number = 0;
    const bool lost = is_on_rank_1(PASS_LOST) && pass_number == fault_passes() - 1;
    const size_t bytes = m->params * sizeof(float);
    float *kept = lost ? malloc(bytes) : NULL;
    if (lost && !kept) return gs_fail(GS_E_MEMORY, "no memory");
    if (lost) memcpy(kept, fault_floats(m->gradients), bytes);
    GS_TRY(backward(m, pass, logits, targets));
    if (lost) memcpy(fault_floats(m->gradients), kept, bytes);
    free(kept);
    pass_number++;
    if (is_on(SUMMED_EACH_PASS) && !w->micro_batch.last)
        return gs_comm_all_reduce(w->comm, fault_floats(m->gradients), m->params, GS_F32, GS_SUM);
    return GS_OK;
}

/* ---- calls between workers ---- */

/* The parts arrive, but each is stored one rank too far. */
static void turn_parts(const gs_comm *c, const gs_call *call, float *all) {
    const size_t part = call->count * sizeof *all, last = part * (size_t)(c->size - 1);
    float *kept = malloc(part + 1);
    if (!kept) gs_bug("no memory");
    memcpy(kept, (char *)all + last, part);
    memmove((char *)all + part, all, last);
    memcpy(all, kept, part);
    free(kept);
}

gs_status __wrap_gs_call_run(gs_comm *c, const gs_call *call, const void *in, void *out) {
    const gs_worker *w = fault_worker;
    const bool sum_of_squares =
        call->operation == GS_ALL_REDUCE && call->type == GS_I64 && call->reduction == GS_SUM;
    const bool whole = w && w->optimizer && w->optimizer->ops->whole;
    if (sum_of_squares && (is_on(NORM_OF_PART) || (is_on(TRUST_OF_PARTS) && whole))) return GS_OK;
    GS_TRY(__real_gs_call_run(c, call, in, out));
    if (is_on(GATHERED_WRONGLY) && call->operation == GS_ALL_GATHER && call->type == GS_F32)
        turn_parts(c, call, out);
    return GS_OK;
}
