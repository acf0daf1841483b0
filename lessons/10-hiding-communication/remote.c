/* How the calls of lab 10 travel. */
#include "tasks.h"

#include "remote/remote.h"

enum { PLAN, HIDDEN_SHARE, NARROW };

/* ---- buckets ---- */

typedef struct plan_call {
    const size_t *layer;
    int layers;
    size_t count, least;
    gs_bucket *bucket;
    int buckets;
} plan_call;

static void pass_plan(lab_wire *w, void *arguments) {
    plan_call *a = arguments;
    LAB_VALUES(w, a->layers, a->count, a->least);
    LAB_IN(w, a->layer, (size_t)a->layers);
    LAB_INOUT(w, a->bucket, (size_t)a->layers + 1);
    LAB_RESULT(w, a->buckets);
}

/* ---- overlap ---- */

typedef struct share_call {
    timeline t;
    double *over, share;
} share_call;

static void pass_share(lab_wire *w, void *arguments) {
    share_call *a = arguments;
    LAB_VALUES(w, a->t.layers, a->t.buckets, a->t.alpha, a->t.beta);
    LAB_IN(w, a->t.layer, (size_t)a->t.layers);
    LAB_IN(w, a->t.done, (size_t)a->t.layers);
    LAB_IN(w, a->t.bucket, (size_t)a->t.buckets);
    LAB_INOUT(w, a->over, (size_t)a->t.buckets);
    LAB_RESULT(w, a->share);
}

/* ---- fewer bits: whole arrays, since a call for each number would be slow ---- */

typedef struct narrow_call {
    gs_wire wire;
    const float *from;
    uint16_t *to;
    size_t count;
} narrow_call;

static void pass_narrow(lab_wire *w, void *arguments) {
    narrow_call *a = arguments;
    LAB_VALUES(w, a->wire, a->count);
    LAB_IN(w, a->from, a->count);
    LAB_INOUT(w, a->to, a->count);
}

#ifdef LAB_HAND_IN

LAB_CALLER(call_plan, plan_call,
           a->buckets = gs_buckets_plan(a->layer, a->layers, a->count, a->least, a->bucket))
LAB_CALLER(call_share, share_call, a->share = hidden_share(&a->t, a->over))

static void call_narrow(void *arguments) {
    narrow_call *a = arguments;
    for (size_t i = 0; i < a->count; i++)
        a->to[i] = a->wire == GS_WIRE_BF16 ? to_bf16(a->from[i]) : to_f16(a->from[i]);
}

#else

int lab_plan(const size_t *layer, int layers, size_t count, size_t least, gs_bucket *bucket) {
    LAB_ASK(PLAN, plan_call, buckets, layer, layers, count, least, bucket, 0);
}

/* The library trusts a plan, so a wrong one ends here. */
int gs_buckets_plan(const size_t *layer, int layers, size_t count, size_t least, gs_bucket *bucket) {
    int buckets = lab_plan(layer, layers, count, least, bucket);
    bool inside = buckets >= 1 && buckets <= layers + 1;
    for (int i = 0; i < buckets && inside; i++)
        inside = bucket[i].first <= count && bucket[i].count <= count - bucket[i].first;
    if (!inside) gs_bug("gs_buckets_plan: %d buckets that are not within %zu elements", buckets, count);
    return buckets;
}

double hidden_share(const timeline *t, double *over) {
    LAB_ASK(HIDDEN_SHARE, share_call, share, *t, over, 0);
}

void lab_narrow(gs_wire wire, uint16_t *to, const float *from, size_t count) {
    narrow_call a = {wire, from, to, count};
    lab_remote(NARROW, &a);
}

uint16_t to_bf16(float f) {
    uint16_t to = 0;
    lab_narrow(GS_WIRE_BF16, &to, &f, 1);
    return to;
}

uint16_t to_f16(float f) {
    uint16_t to = 0;
    lab_narrow(GS_WIRE_F16, &to, &f, 1);
    return to;
}
#endif

const lab_function lab_functions[] = {
    {sizeof(plan_call), pass_plan, LAB_THEIRS(call_plan)},
    {sizeof(share_call), pass_share, LAB_THEIRS(call_share)},
    {sizeof(narrow_call), pass_narrow, LAB_THEIRS(call_narrow)},
    {0},
};
