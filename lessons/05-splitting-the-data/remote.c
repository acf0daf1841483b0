/* How the calls of lab 5 travel. */
#include "tasks.h"

#include <string.h>
#include "remote/wire.h"

enum { SHARD_OF, EPOCH_ORDER, ORDERS, EPOCHS, SPLIT, STEP, ASK_ORDER, ASK_USE };
enum { MOST = 1000 /* samples of an order */ };

/* ---- parts and orders ---- */

typedef struct shard_call {
    size_t total;
    int rank, size;
    gs_shard shard;
} shard_call;

static void pass_shard(lab_wire *w, void *arguments) {
    shard_call *a = arguments;
    LAB_VALUES(w, a->total, a->rank, a->size);
    LAB_RESULT(w, a->shard);
}

typedef struct order_call {
    uint64_t seed, epoch, epochs; /* one epoch; or several, from 1 on */
    size_t n;
    uint32_t *order;
} order_call;

static void pass_order(lab_wire *w, void *arguments) {
    order_call *a = arguments;
    LAB_VALUES(w, a->seed, a->epoch, a->epochs, a->n);
    LAB_INOUT(w, a->order, a->epochs * a->n);
}

/* ---- function arguments of the functions to mend: the hand-in calls, and the checker answers ---- */

typedef struct ask_order_call {
    uint64_t seed, epoch;
    size_t n;
    uint32_t order[MOST];
} ask_order_call;

static void pass_ask_order(lab_wire *w, void *arguments) {
    ask_order_call *a = arguments;
    LAB_VALUES(w, a->seed, a->epoch, a->n);
    if (a->n > MOST) lab_wire_lost(w, "it asked for the order of more samples than there are");
    lab_result(w, a->order, a->n * sizeof *a->order);
}

typedef struct ask_use_call {
    uint64_t epoch;
    uint32_t sample;
} ask_use_call;

static void pass_ask_use(lab_wire *w, void *arguments) {
    ask_use_call *a = arguments;
    LAB_VALUES(w, a->epoch, a->sample);
}

/* ---- the functions to mend ---- */

typedef struct epochs_call {
    uint64_t seed, epochs;
    size_t n;
    uint32_t *order;
} epochs_call;

static void pass_epochs(lab_wire *w, void *arguments) {
    epochs_call *a = arguments;
    LAB_VALUES(w, a->seed, a->epochs, a->n);
    LAB_INOUT(w, a->order, a->n);
}

typedef struct split_call {
    uint64_t seed, epoch;
    size_t n, held_out;
    uint32_t *order, *train, *validation;
} split_call;

static void pass_split(lab_wire *w, void *arguments) {
    split_call *a = arguments;
    LAB_VALUES(w, a->seed, a->epoch, a->n, a->held_out);
    LAB_INOUT(w, a->order, a->n);
    LAB_INOUT(w, a->train, a->n - a->held_out);
    LAB_INOUT(w, a->validation, a->held_out);
}

typedef struct step_call {
    double w, lr;
    int workers;
    lab_part *parts;
    double *dw, result;
} step_call;

static void pass_step(lab_wire *w, void *arguments) {
    step_call *a = arguments;
    LAB_VALUES(w, a->w, a->lr, a->workers);
    LAB_IN(w, a->parts, (size_t)a->workers);
    for (int r = 0; r < a->workers; r++) {
        LAB_IN(w, a->parts[r].x, a->parts[r].count);
        LAB_IN(w, a->parts[r].y, a->parts[r].count);
    }
    LAB_INOUT(w, a->dw, (size_t)a->workers);
    LAB_RESULT(w, a->result);
}

#ifdef LAB_HAND_IN

static void ask_order(uint64_t seed, uint64_t epoch, size_t n, uint32_t *order) {
    ask_order_call a = {.seed = seed, .epoch = epoch, .n = n};
    lab_remote(ASK_ORDER, &a);
    memcpy(order, a.order, n * sizeof *order);
}

static void ask_use(void *context, uint64_t epoch, uint32_t sample) {
    ask_use_call a = {epoch, sample};
    (void)context;
    lab_remote(ASK_USE, &a);
}

LAB_CALLER(call_shard, shard_call, a->shard = gs_shard_of(a->total, a->rank, a->size))
LAB_CALLER(call_order, order_call, gs_epoch_order(a->seed, a->epoch, a->n, a->order))

static void call_orders(void *arguments) {
    order_call *a = arguments;
    for (uint64_t e = 0; e < a->epochs; e++) gs_epoch_order(a->seed, e + 1, a->n, a->order + e * a->n);
}

LAB_CALLER(call_epochs, epochs_call, lab_epochs(a->seed, a->epochs, a->n, ask_order, a->order, ask_use, NULL))
LAB_CALLER(call_split, split_call,
           lab_split(a->seed, a->epoch, a->n, a->held_out, ask_order, a->order, a->train, a->validation))
LAB_CALLER(call_step, step_call, a->result = lab_step(a->w, a->lr, a->workers, a->parts, a->dw))

#else

/* The function arguments of the current call. */
static lab_order *order_of;
static lab_use *use;
static void *context_of_use;

static void call_ask_order(void *arguments) {
    ask_order_call *a = arguments;
    if (order_of) order_of(a->seed, a->epoch, a->n, a->order);
}

static void call_ask_use(void *arguments) {
    ask_use_call *a = arguments;
    if (use) use(context_of_use, a->epoch, a->sample);
}

gs_shard gs_shard_of(size_t total, int rank, int size) {
    LAB_ASK(SHARD_OF, shard_call, shard, total, rank, size, {0});
}

void gs_epoch_order(uint64_t seed, uint64_t epoch, size_t n, uint32_t *order) {
    lab_remote(EPOCH_ORDER, &(order_call){seed, epoch, 1, n, order});
}

void lab_orders(uint64_t seed, uint64_t epochs, size_t n, uint32_t *orders) {
    lab_remote(ORDERS, &(order_call){seed, 1, epochs, n, orders});
}

void lab_epochs(uint64_t seed, uint64_t epochs, size_t n, lab_order *o, uint32_t *order, lab_use *u,
                void *context) {
    epochs_call a = {seed, epochs, n, order};
    order_of = o, use = u, context_of_use = context;
    lab_remote(EPOCHS, &a);
    order_of = NULL, use = NULL;
}

void lab_split(uint64_t seed, uint64_t epoch, size_t n, size_t held_out, lab_order *o, uint32_t *order,
               uint32_t *train, uint32_t *validation) {
    split_call a = {seed, epoch, n, held_out, order, train, validation};
    order_of = o;
    lab_remote(SPLIT, &a);
    order_of = NULL;
}

double lab_step(double w, double lr, int workers, const lab_part *parts, double *dw) {
    LAB_ASK(STEP, step_call, result, w, lr, workers, (lab_part *)parts, dw, 0);
}
#endif

const lab_function lab_functions[] = {
    {sizeof(shard_call), pass_shard, LAB_THEIRS(call_shard)},
    {sizeof(order_call), pass_order, LAB_THEIRS(call_order)},
    {sizeof(order_call), pass_order, LAB_THEIRS(call_orders)},
    {sizeof(epochs_call), pass_epochs, LAB_THEIRS(call_epochs)},
    {sizeof(split_call), pass_split, LAB_THEIRS(call_split)},
    {sizeof(step_call), pass_step, LAB_THEIRS(call_step)},
    {sizeof(ask_order_call), pass_ask_order, LAB_OURS(call_ask_order)},
    {sizeof(ask_use_call), pass_ask_use, LAB_OURS(call_ask_use)},
    {0},
};
