/* Helpers for checks: ranks as threads, and numbers in messages. */
#include "lab.h"

#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "train/train.h"

/* ---- cases that no student has seen ---- */

uint64_t lab_seed(void) {
    static uint64_t seed; /* 0: not read yet */
    const char *text = seed == 0 ? getenv(LAB_SEED) : NULL;
    if (seed == 0) seed = text ? strtoull(text, NULL, 10) : 1;
    return seed;
}

static uint32_t word_of(unsigned row, size_t i) {
    uint32_t word[4];
    gs_philox(lab_seed(), row, i / 4, word);
    return word[i % 4];
}

float lab_number(unsigned row, size_t i) {
    return ((float)(word_of(row, i) >> 9) + 0.5f) / 4194304 - 1;
}

size_t lab_pick(unsigned row, size_t i, size_t below) {
    return (size_t)((uint64_t)word_of(row, i) * below >> 32);
}

/* ---- ranks ---- */

/* Ranks wait here for each other without the comm, whose own waits end after LAB_WAIT seconds. */
typedef struct meeting {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int ranks, arrived; /* arrived: the total over all meetings so far */
    bool failed;        /* some rank will never arrive */
} meeting;

typedef struct lab_rank {
    gs_status (*body)(gs_comm *, void *);
    void *context;
    gs_comm *comm;
    meeting *meeting;
    int met;
    pthread_t thread;
    gs_status status;
    char message[1024]; /* errors belong to a thread; this brings one to the caller */
} lab_rank;

static _Thread_local lab_rank *self;

static void tell_others(meeting *m) {
    pthread_mutex_lock(&m->lock);
    m->failed = true;
    pthread_cond_broadcast(&m->changed);
    pthread_mutex_unlock(&m->lock);
}

static void *rank_main(void *argument) {
    lab_rank *r = self = argument;
    r->status = r->body(r->comm, r->context);
    if (r->status == GS_OK) return NULL;
    snprintf(r->message, sizeof r->message, "%s", gs_message());
    tell_others(r->meeting);
    char reason[1100];
    snprintf(reason, sizeof reason, "rank %d failed: %s", r->comm->rank, r->message);
    gs_comm_abort(r->comm, reason); /* so that the others do not wait */
    return NULL;
}

gs_status lab_meet(gs_comm *c) {
    meeting *m = self->meeting;
    pthread_mutex_lock(&m->lock);
    int wanted = ++self->met * m->ranks;
    m->arrived++;
    pthread_cond_broadcast(&m->changed);
    while (m->arrived < wanted && !m->failed) pthread_cond_wait(&m->changed, &m->lock);
    bool all = m->arrived >= wanted;
    pthread_mutex_unlock(&m->lock);
    return all ? GS_OK : gs_fail(GS_E_INTERRUPTED, "rank %d waited for one that had failed", c->rank);
}

/* Orders failures by importance: a failed check, then a missing message, then an interrupted wait for the others. */
static int weight(gs_status status) {
    return status == GS_OK ? 0 : status == GS_E_INTERRUPTED ? 1 : status == GS_E_PEER ? 2 : 3;
}

static gs_status first_failure(const lab_rank *ranks, int count) {
    const lab_rank *first = &ranks[0];
    for (int i = 1; i < count; i++)
        if (weight(ranks[i].status) > weight(first->status)) first = &ranks[i];
    if (first->status == GS_OK) return GS_OK;
    return gs_fail(first->status, "rank %d: %s", (int)(first - ranks), first->message);
}

gs_status lab_run_ranks(int count, gs_status (*body)(gs_comm *, void *), void *context) {
    lab_rank ranks[LAB_RANKS] = {0};
    gs_comm *comms[LAB_RANKS];
    meeting m = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, count, 0, false};
    if (count < 1 || count > LAB_RANKS) gs_bug("lab_run_ranks: %d ranks", count);
    GS_TRY(gs_comm_threads_create(count, LAB_WAIT, comms));
    for (int i = 0; i < count; i++) GS_TRY(gs_comm_checked_create(comms[i], &comms[i]));
    for (int i = 0; i < count; i++) {
        ranks[i] = (lab_rank){.body = body, .context = context, .comm = comms[i], .meeting = &m};
        if (pthread_create(&ranks[i].thread, NULL, rank_main, &ranks[i]) != 0) gs_bug("no thread");
    }
    for (int i = 0; i < count; i++) pthread_join(ranks[i].thread, NULL);
    for (int i = 0; i < count; i++) gs_comm_free(comms[i]);
    return first_failure(ranks, count);
}

/* ---- calls that fail ---- */

static const char LOST[] = "a rank was lost", LOST_BEFORE[] = "a rank had been lost before";

gs_status lab_broken(bool first) {
    return gs_fail(GS_E_PEER, "%s", first ? LOST : LOST_BEFORE);
}

gs_status lab_passed_on(gs_status status, const char *call) {
    if (status != GS_OK && strstr(gs_message(), LOST)) return GS_OK;
    lab_hint("look at what each call returns, and return it if it is no GS_OK (GS_TRY does).");
    return gs_fail(GS_E_SHAPE, "%s: expected its failure, got %s", call,
                   status == GS_OK                     ? "GS_OK"
                   : strstr(gs_message(), LOST_BEFORE) ? "that of a later call"
                                                       : "other results");
}

static struct {
    const gs_transport *ops;
    int works;
} unbroken[LAB_RANKS]; /* each rank changes only its own */

static gs_status works(const gs_comm *c) {
    const int left = unbroken[c->rank].works--;
    return left > 0 ? GS_OK : lab_broken(left == 0);
}

static gs_status broken_collective(gs_comm *c, const gs_call *call, const void *in, void *out) {
    GS_TRY(works(c));
    return unbroken[c->rank].ops->collective(c, call, in, out);
}

static gs_status broken_send(gs_comm *c, const gs_envelope *e, const void *data, size_t bytes) {
    GS_TRY(works(c));
    return unbroken[c->rank].ops->send(c, e, data, bytes);
}

static gs_status broken_recv(gs_comm *c, const gs_envelope *e, void *data, size_t bytes) {
    GS_TRY(works(c));
    return unbroken[c->rank].ops->recv(c, e, data, bytes);
}

typedef struct watched_run {
    int works; /* of lab_run_broken */
    gs_status (*body)(gs_comm *, void *);
    void *context;
} watched_run;

static gs_status run_broken(gs_comm *c, void *context) {
    const watched_run *run = context;
    gs_transport ops = *(unbroken[c->rank].ops = c->ops);
    unbroken[c->rank].works = run->works;
    ops.collective = broken_collective;
    ops.send = broken_send;
    ops.recv = broken_recv;
    gs_comm mine = *c;
    mine.ops = &ops;
    const gs_status status = run->body(&mine, run->context);
    const bool met = unbroken[c->rank].works <
                     0; /* 0: it made no further calls, or it ended because others failed first */
    if (!met) return status == GS_E_PEER || status == GS_E_INTERRUPTED ? GS_OK : status;
    char call[100];
    snprintf(call, sizeof call, "call number %d to the other ranks fails, because one was lost",
             run->works + 1);
    GS_TRY(lab_passed_on(status, call));
    tell_others(self->meeting); /* so that they do not wait */
    gs_comm_abort(c, LOST_BEFORE);
    return GS_OK;
}

gs_status lab_run_broken(int ranks, int works, gs_status (*body)(gs_comm *, void *), void *context) {
    watched_run run = {works, body, context};
    return lab_run_ranks(ranks, run_broken, &run);
}

/* ---- calls that are counted ---- */

static const gs_transport *uncounted[LAB_RANKS]; /* each rank changes only its own */
static lab_calls calls[LAB_RANKS];

static gs_status counted_collective(gs_comm *c, const gs_call *call, const void *in, void *out) {
    const size_t bytes = call->count * gs_type_size(call->type);
    const double n = c->size;
    calls[c->rank].calls++;
    calls[c->rank].bytes += bytes;
    calls[c->rank].ring += (double)bytes * (call->operation == GS_REDUCE_SCATTER ? (n - 1) / n
                                            : call->operation == GS_ALL_GATHER   ? n - 1
                                            : call->operation == GS_ALL_REDUCE   ? 2 * (n - 1) / n
                                                                                 : 1);
    return uncounted[c->rank]->collective(c, call, in, out);
}

static gs_status counted_send(gs_comm *c, const gs_envelope *e, const void *data, size_t bytes) {
    calls[c->rank].calls++;
    calls[c->rank].bytes += bytes;
    calls[c->rank].ring += (double)bytes;
    return uncounted[c->rank]->send(c, e, data, bytes);
}

lab_calls lab_calls_of(const gs_comm *c) {
    const lab_calls made = calls[c->rank];
    calls[c->rank] = (lab_calls){0};
    return made;
}

static gs_status run_counted(gs_comm *c, void *context) {
    const watched_run *run = context;
    gs_transport counting = *(uncounted[c->rank] = c->ops);
    counting.collective = counted_collective;
    counting.send = counted_send;
    gs_comm mine = *c;
    mine.ops = &counting;
    lab_calls_of(c);
    return run->body(&mine, run->context);
}

gs_status lab_run_counted(int ranks, gs_status (*body)(gs_comm *, void *), void *context) {
    watched_run run = {0, body, context};
    return lab_run_ranks(ranks, run_counted, &run);
}

/* ---- training ---- */

double lab_largest_difference(const gs_result *a, const gs_result *b) {
    double largest = 0;
    for (size_t i = 0; i < a->params; i++) {
        double d = fabs((double)a->weights[i] - (double)b->weights[i]);
        if (isnan(d)) return INFINITY;
        if (d > largest) largest = d;
    }
    return largest;
}

gs_settings lab_short_run(const char *model, const char *devices, int batch, int steps) {
    gs_settings s = gs_settings_default();
    s.model = model;
    s.devices = devices;
    s.batch = batch;
    s.steps = steps;
    s.threads = 1;
    s.timeout = LAB_WAIT;
    return s;
}

gs_status lab_train_both(const gs_settings *a, const gs_settings *b, double *difference, int *buckets) {
    gs_result ra = {0}, rb = {0};
    gs_status status = gs_train(a, NULL, &ra);
    if (status == GS_OK) status = gs_train(b, NULL, &rb);
    if (status == GS_OK) *difference = lab_largest_difference(&ra, &rb);
    if (buckets) *buckets = rb.overlap.buckets;
    gs_result_free(&ra);
    gs_result_free(&rb);
    return status;
}

gs_status lab_compare_training(const gs_settings *s, double near) {
    gs_result yours = {0}, ours = {0};
    gs_status status = gs_train(s, NULL, &yours);
    gs_backend_replace(NULL);
    if (status == GS_OK) status = gs_train(s, NULL, &ours);
    const double difference = lab_largest_difference(&yours, &ours);
    if (status == GS_OK && !(difference <= near))
        status = gs_fail(
            GS_E_DIFFER,
            "%d steps of training on %s: a weight differs by %g from the library's result; at most %g "
            "is allowed",
            (int)s->steps, s->devices, difference, near);
    gs_result_free(&yours);
    gs_result_free(&ours);
    return status;
}

/* ---- messages ---- */

static _Atomic(const char *) hint = ""; /* atomic, because ranks are threads */

void lab_hint(const char *text) {
    hint = text;
}

const char *lab_hint_of_failure(void) {
    return hint;
}

static _Atomic(const char *) unit_measured = "";
static _Atomic size_t measured;

void lab_measure(const char *unit, size_t amount) {
    unit_measured = unit;
    measured += amount;
}

size_t lab_measured(const char **unit) {
    *unit = unit_measured;
    return measured;
}

void lab_append(char *text, size_t size, const char *format, ...) {
    const size_t used = strlen(text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text + used, size - used, format, arguments);
    va_end(arguments);
}

const char *lab_floats(const float *x, size_t count) {
    enum { SHOWN = 12 };
    static _Thread_local char results[4][SHOWN * 16 + 8];
    static _Thread_local int next;
    char *text = results[next++ % 4];
    text[0] = '\0';
    for (size_t i = 0; i < count && i < SHOWN; i++)
        lab_append(text, sizeof *results, "%s%.6g", i > 0 ? " " : "", x[i]);
    if (count > SHOWN) lab_append(text, sizeof *results, " ...");
    return text;
}

bool lab_small(void) {
    return getenv("GRADSUM_LAB_SMALL") != NULL;
}
