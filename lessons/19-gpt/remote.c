/* How the calls of lab 19 travel. */
#include "tasks.h"

#include "remote/remote.h"

enum { LABELS, ATTEND, ATTEND_END, MEAN_GRADIENT, CLIP, PERPLEXITY, BITS_PER_BYTE };

/* ---- labels ---- */

typedef struct labels_call {
    const int32_t *text;
    size_t count, first, n;
    int32_t end, *label;
    size_t there;
} labels_call;

static void pass_labels(lab_wire *w, void *arguments) {
    labels_call *a = arguments;
    LAB_VALUES(w, a->count, a->first, a->n, a->end);
    LAB_IN(w, a->text, a->count);
    LAB_INOUT(w, a->label, a->n);
    LAB_RESULT(w, a->there);
}

/* ---- attention ---- */

typedef struct attend_call {
    lab_running r;
    float largest, sum; /* after the call */
    size_t d, token, first, count;
    const float *q, *keys, *values;
    float lse;
} attend_call;

static void pass_running(lab_wire *w, attend_call *a) {
    LAB_VALUES(w, a->d, a->r.largest, a->r.sum);
    LAB_INOUT(w, a->r.y, a->d);
    LAB_RESULT(w, a->largest);
    LAB_RESULT(w, a->sum);
}

static void pass_attend(lab_wire *w, void *arguments) {
    attend_call *a = arguments;
    pass_running(w, a);
    LAB_VALUES(w, a->token, a->first, a->count);
    LAB_IN(w, a->q, a->d);
    LAB_IN(w, a->keys, a->count * a->d);
    LAB_IN(w, a->values, a->count * a->d);
}

static void pass_attend_end(lab_wire *w, void *arguments) {
    attend_call *a = arguments;
    pass_running(w, a);
    LAB_RESULT(w, a->lse);
}

/* ---- sums ---- */

typedef struct mean_call {
    gs_comm *c;
    size_t parts;
    lab_part *part;
    size_t count;
    float *dw;
    double loss;
    gs_status status;
} mean_call;

static void pass_mean(lab_wire *w, void *arguments) {
    mean_call *a = arguments;
    lab_pass_comm(w, &a->c);
    LAB_VALUES(w, a->parts, a->count);
    LAB_IN(w, a->part, a->parts);
    for (size_t p = 0; p < a->parts; p++) LAB_IN(w, a->part[p].dw, a->count);
    LAB_INOUT(w, a->dw, a->count);
    LAB_RESULT(w, a->loss);
    lab_status(w, &a->status);
}

typedef struct clip_call {
    gs_comm *c;
    size_t pieces;
    lab_piece *piece;
    double most, norm, factor;
    gs_status status;
} clip_call;

static void pass_clip(lab_wire *w, void *arguments) {
    clip_call *a = arguments;
    lab_pass_comm(w, &a->c);
    LAB_VALUES(w, a->pieces, a->most);
    LAB_IN(w, a->piece, a->pieces);
    for (size_t p = 0; p < a->pieces; p++) LAB_IN(w, a->piece[p].dw, a->piece[p].count);
    LAB_RESULT(w, a->norm);
    LAB_RESULT(w, a->factor);
    lab_status(w, &a->status);
}

/* ---- scores ---- */

typedef struct score_call {
    size_t workers;
    const lab_score *score;
    double result;
} score_call;

static void pass_score(lab_wire *w, void *arguments) {
    score_call *a = arguments;
    LAB_VALUE(w, a->workers);
    LAB_IN(w, a->score, a->workers);
    LAB_RESULT(w, a->result);
}

#ifdef LAB_HAND_IN

LAB_CALLER(call_labels, labels_call,
           a->there = lab_labels(a->text, a->count, a->first, a->n, a->end, a->label))

static void call_attend(void *arguments) {
    attend_call *a = arguments;
    lab_running r = a->r;
    lab_attend(&r, a->d, a->q, a->token, a->keys, a->values, a->first, a->count);
    a->largest = r.largest, a->sum = r.sum;
}

static void call_attend_end(void *arguments) {
    attend_call *a = arguments;
    lab_running r = a->r;
    a->lse = lab_attend_end(&r, a->d);
    a->largest = r.largest, a->sum = r.sum;
}

LAB_CALLER(call_mean, mean_call,
           a->status = lab_mean_gradient(a->c, a->parts, a->part, a->count, a->dw, &a->loss))
LAB_CALLER(call_clip, clip_call,
           a->status = lab_clip(a->c, a->pieces, a->piece, a->most, &a->norm, &a->factor))
LAB_CALLER(call_perplexity, score_call, a->result = lab_perplexity(a->workers, a->score))
LAB_CALLER(call_bits, score_call, a->result = lab_bits_per_byte(a->workers, a->score))

#else

size_t lab_labels(const int32_t *text, size_t count, size_t first, size_t n, int32_t end, int32_t *label) {
    LAB_ASK(LABELS, labels_call, there, text, count, first, n, end, label, 0);
}

void lab_attend(lab_running *r, size_t d, const float *q, size_t token, const float *keys,
                const float *values, size_t first, size_t count) {
    attend_call a = {.r = *r, .d = d, .token = token, .first = first, .count = count};
    a.q = q, a.keys = keys, a.values = values;
    lab_remote(ATTEND, &a);
    r->largest = a.largest, r->sum = a.sum;
}

float lab_attend_end(lab_running *r, size_t d) {
    attend_call a = {.r = *r, .d = d};
    lab_remote(ATTEND_END, &a);
    r->largest = a.largest, r->sum = a.sum;
    return a.lse;
}

gs_status lab_mean_gradient(gs_comm *c, size_t parts, const lab_part *part, size_t count, float *dw,
                            double *loss) {
    mean_call a = {c, parts, (lab_part *)part, count, dw, 0, GS_OK};
    lab_remote(MEAN_GRADIENT, &a);
    *loss = a.loss;
    return a.status;
}

gs_status lab_clip(gs_comm *c, size_t pieces, const lab_piece *piece, double most, double *norm,
                   double *factor) {
    clip_call a = {c, pieces, (lab_piece *)piece, most, 0, 0, GS_OK};
    lab_remote(CLIP, &a);
    *norm = a.norm;
    *factor = a.factor;
    return a.status;
}

double lab_perplexity(size_t workers, const lab_score *score) {
    LAB_ASK(PERPLEXITY, score_call, result, workers, score, 0);
}

double lab_bits_per_byte(size_t workers, const lab_score *score) {
    LAB_ASK(BITS_PER_BYTE, score_call, result, workers, score, 0);
}
#endif

const lab_function lab_functions[] = {
    {sizeof(labels_call), pass_labels, LAB_THEIRS(call_labels)},
    {sizeof(attend_call), pass_attend, LAB_THEIRS(call_attend)},
    {sizeof(attend_call), pass_attend_end, LAB_THEIRS(call_attend_end)},
    {sizeof(mean_call), pass_mean, LAB_THEIRS(call_mean)},
    {sizeof(clip_call), pass_clip, LAB_THEIRS(call_clip)},
    {sizeof(score_call), pass_score, LAB_THEIRS(call_perplexity)},
    {sizeof(score_call), pass_score, LAB_THEIRS(call_bits)},
    {0},
};
