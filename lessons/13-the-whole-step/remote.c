/* How the calls of lab 13 travel. A step's arrays go to the hand-in and come back; the calls of its functions (a
 * layer's backward, a sum) come to the checker in order: that is the timeline of the step. */
#include "tasks.h"

#include "remote/remote.h"

enum { MY_SAMPLES, LOCAL_GRADIENT, SUM, UPDATE, PLAIN_STEP, RELEASE, TRAFFIC, OVERLAPPED_STEP };
enum { LOAD = OVERLAPPED_STEP + 1, FORWARD, LOSS, BACKWARD, HOOK, BEGIN, WAIT };

/* ---- what the student wrote ---- */

typedef struct step_call {
    lab_step step;
    size_t *mine, count; /* of MY_SAMPLES */
    int layer;           /* of RELEASE */
    bool hooked;         /* of LOCAL_GRADIENT: there is a hook */
    gs_sync_cost cost;   /* of TRAFFIC */
    gs_status status;
} step_call;

static void pass_step(lab_wire *w, void *arguments) {
    step_call *a = arguments;
    lab_step *s = &a->step;
    LAB_VALUES(w, s->rank, s->ranks, s->samples, s->batch, s->number, s->layers);
    LAB_VALUES(w, s->params, s->rate, s->momentum, s->buckets);
    LAB_IN(w, s->order, s->samples);
    LAB_IN(w, s->layer, (size_t)s->layers);
    LAB_IN(w, s->bucket, (size_t)s->buckets);
    LAB_INOUT(w, s->weights, s->params);
    LAB_INOUT(w, s->velocity, s->params);
    LAB_INOUT(w, s->gradients, s->params + GS_STATS);
    LAB_INOUT(w, a->mine, s->batch);
    LAB_RESULT(w, a->count);
    LAB_VALUES(w, a->layer, a->hooked);
    LAB_RESULT(w, a->cost);
    lab_status(w, &a->status);
}

/* ---- what it calls ---- */

typedef struct back_call {
    int index; /* of the layer or bucket */
    size_t *sample;
    float *data;
    size_t count; /* of samples; of data */
    gs_status status;
} back_call;

static void pass_back(lab_wire *w, void *arguments) {
    back_call *a = arguments;
    LAB_VALUES(w, a->index, a->count);
    LAB_IN(w, a->sample, a->count);
    LAB_INOUT(w, a->data, a->count);
    lab_status(w, &a->status);
}

#ifdef LAB_HAND_IN

LAB_CALLER(call_my_samples, step_call, a->count = my_samples(&a->step, a->mine))
LAB_CALLER(call_local_gradient, step_call, a->status = local_gradient(&a->step, a->hooked ? lab_hook : NULL))
LAB_CALLER(call_sum, step_call, a->status = sum(&a->step))
LAB_CALLER(call_update, step_call, update(&a->step))
LAB_CALLER(call_plain_step, step_call, a->status = plain_step(&a->step))
LAB_CALLER(call_release, step_call, a->status = release(&a->step, a->layer))
LAB_CALLER(call_traffic, step_call, a->cost = traffic(&a->step))
LAB_CALLER(call_overlapped_step, step_call, a->status = overlapped_step(&a->step))

static gs_status ask(int function, back_call a) {
    lab_remote(function, &a);
    return a.status;
}

gs_status lab_load(lab_step *s, const size_t *sample, size_t count) {
    (void)s;
    return ask(LOAD, (back_call){.sample = (size_t *)sample, .count = count});
}

gs_status lab_forward(lab_step *s, int layer) {
    (void)s;
    return ask(FORWARD, (back_call){.index = layer});
}

gs_status lab_loss(lab_step *s) {
    return ask(LOSS, (back_call){.data = s->gradients + s->params, .count = GS_STATS});
}

gs_status lab_backward(lab_step *s, int layer) {
    GS_TRY(lab_check_layer(s, layer));
    const gs_chunk *l = &s->layer[layer];
    return ask(BACKWARD, (back_call){.index = layer, .data = s->gradients + l->first, .count = l->count});
}

gs_status lab_hook(lab_step *s, int layer) {
    (void)s;
    return ask(HOOK, (back_call){.index = layer});
}

static gs_status ask_bucket(int function, const lab_step *s, int bucket) {
    GS_TRY(lab_check_bucket(s, bucket));
    const gs_chunk *b = &s->bucket[bucket];
    return ask(function, (back_call){.index = bucket, .data = s->gradients + b->first, .count = b->count});
}

gs_status lab_sum_begin(lab_step *s, int bucket) {
    return ask_bucket(BEGIN, s, bucket);
}

gs_status lab_sum_wait(lab_step *s, int bucket) {
    return ask_bucket(WAIT, s, bucket);
}

#else

static _Thread_local lab_step *here; /* the current step: each rank is a thread */

static step_call ask(int function, const lab_step *s, step_call a) {
    a.step = *s;
    here = (lab_step *)s;
    lab_remote(function, &a);
    here = NULL;
    return a;
}

size_t my_samples(const lab_step *s, size_t *mine) {
    return ask(MY_SAMPLES, s, (step_call){.mine = mine}).count;
}

gs_status local_gradient(lab_step *s, gs_status (*hook)(lab_step *, int layer)) {
    return ask(LOCAL_GRADIENT, s, (step_call){.hooked = hook != NULL}).status;
}

gs_status sum(lab_step *s) {
    return ask(SUM, s, (step_call){0}).status;
}

void update(lab_step *s) {
    ask(UPDATE, s, (step_call){0});
}

gs_status plain_step(lab_step *s) {
    return ask(PLAIN_STEP, s, (step_call){0}).status;
}

gs_status release(lab_step *s, int layer) {
    return ask(RELEASE, s, (step_call){.layer = layer}).status;
}

gs_sync_cost traffic(const lab_step *s) {
    return ask(TRAFFIC, s, (step_call){0}).cost;
}

gs_status overlapped_step(lab_step *s) {
    return ask(OVERLAPPED_STEP, s, (step_call){0}).status;
}

/* ---- in the checker: the hand-in may send anything ---- */

static gs_status check_here(void) {
    return here ? GS_OK : gs_fail(GS_E_USAGE, "called outside of a step");
}

static gs_status load_here(const back_call *a) {
    GS_TRY(check_here());
    if (!a->sample || a->count > here->batch)
        return gs_fail(GS_E_USAGE, "lab_load: %zu samples; at most %zu", a->sample ? a->count : 0,
                       here->batch);
    return lab_load(here, a->sample, a->count);
}

LAB_CALLER(call_load, back_call, a->status = load_here(a))
LAB_CALLER(call_forward, back_call, a->status = here ? lab_forward(here, a->index) : check_here())
LAB_CALLER(call_hook, back_call, a->status = here ? lab_hook(here, a->index) : check_here())

static gs_status check_data(const back_call *a, size_t count) {
    if (a->data && a->count == count) return GS_OK;
    return gs_fail(GS_E_SHAPE, "%zu numbers; wanted %zu", a->data ? a->count : 0, count);
}

static gs_status loss_here(const back_call *a) {
    GS_TRY(check_here());
    GS_TRY(check_data(a, GS_STATS));
    return here->run->loss(here->run, a->data);
}

LAB_CALLER(call_loss, back_call, a->status = loss_here(a))

static gs_status backward_here(const back_call *a) {
    GS_TRY(check_here());
    GS_TRY(lab_check_layer(here, a->index));
    GS_TRY(check_data(a, here->layer[a->index].count));
    return here->run->backward(here->run, a->index, a->data);
}

LAB_CALLER(call_backward, back_call, a->status = backward_here(a))

static gs_status check_bucket_here(const back_call *a) {
    GS_TRY(check_here());
    GS_TRY(lab_check_bucket(here, a->index));
    return check_data(a, here->bucket[a->index].count);
}

static void call_begin(void *arguments) {
    back_call *a = arguments;
    a->status = check_bucket_here(a);
    if (a->status == GS_OK) a->status = here->run->begin(here->run, a->index, a->data);
}

static void call_wait(void *arguments) {
    back_call *a = arguments;
    a->status = check_bucket_here(a);
    if (a->status == GS_OK) a->status = here->run->wait(here->run, a->index, a->data);
}
#endif

const lab_function lab_functions[] = {
    {sizeof(step_call), pass_step, LAB_THEIRS(call_my_samples)},
    {sizeof(step_call), pass_step, LAB_THEIRS(call_local_gradient)},
    {sizeof(step_call), pass_step, LAB_THEIRS(call_sum)},
    {sizeof(step_call), pass_step, LAB_THEIRS(call_update)},
    {sizeof(step_call), pass_step, LAB_THEIRS(call_plain_step)},
    {sizeof(step_call), pass_step, LAB_THEIRS(call_release)},
    {sizeof(step_call), pass_step, LAB_THEIRS(call_traffic)},
    {sizeof(step_call), pass_step, LAB_THEIRS(call_overlapped_step)},
    {sizeof(back_call), pass_back, LAB_OURS(call_load)},
    {sizeof(back_call), pass_back, LAB_OURS(call_forward)},
    {sizeof(back_call), pass_back, LAB_OURS(call_loss)},
    {sizeof(back_call), pass_back, LAB_OURS(call_backward)},
    {sizeof(back_call), pass_back, LAB_OURS(call_hook)},
    {sizeof(back_call), pass_back, LAB_OURS(call_begin)},
    {sizeof(back_call), pass_back, LAB_OURS(call_wait)},
    {0},
};
