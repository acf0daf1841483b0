/* How the calls of lab 12 travel. */
#include "tasks.h"

#include "remote/remote.h"

enum { DIVIDE, GATHER, BEST_BATCH, SERVE };

typedef struct divide_call {
    size_t requests;
    int workers;
    const double *speed;
    size_t *count;
} divide_call;

static void pass_divide(lab_wire *w, void *arguments) {
    divide_call *a = arguments;
    LAB_VALUES(w, a->requests, a->workers);
    LAB_IN(w, a->speed, (size_t)a->workers);
    LAB_INOUT(w, a->count, (size_t)a->workers);
}

typedef struct gather_call {
    int workers;
    lab_answers *from;
    size_t requests, width;
    float *out;
    unsigned char *seen;
    size_t missing;
} gather_call;

static void pass_gather(lab_wire *w, void *arguments) {
    gather_call *a = arguments;
    LAB_VALUES(w, a->workers, a->requests, a->width);
    LAB_IN(w, a->from, (size_t)a->workers);
    for (int r = 0; r < a->workers; r++) {
        LAB_IN(w, a->from[r].request, a->from[r].count);
        LAB_IN(w, a->from[r].answer, a->from[r].count * a->width);
    }
    LAB_INOUT(w, a->out, a->requests * a->width);
    LAB_INOUT(w, a->seen, a->requests);
    LAB_RESULT(w, a->missing);
}

typedef struct best_batch_call {
    size_t rows;
    const lab_timing *table;
    double bound;
    size_t best;
} best_batch_call;

static void pass_best_batch(lab_wire *w, void *arguments) {
    best_batch_call *a = arguments;
    LAB_VALUE(w, a->rows);
    LAB_IN(w, a->table, a->rows);
    LAB_VALUE(w, a->bound);
    LAB_RESULT(w, a->best);
}

typedef struct serve_call {
    lab_server server;
    size_t requests;
    const double *arrival;
    double *done;
} serve_call;

static void pass_serve(lab_wire *w, void *arguments) {
    serve_call *a = arguments;
    LAB_VALUES(w, a->server, a->requests);
    LAB_IN(w, a->arrival, a->requests);
    LAB_INOUT(w, a->done, a->requests);
}

#ifdef LAB_HAND_IN

LAB_CALLER(call_divide, divide_call, lab_divide(a->requests, a->workers, a->speed, a->count))
LAB_CALLER(call_gather, gather_call,
           a->missing = lab_gather(a->workers, a->from, a->requests, a->width, a->out, a->seen))
LAB_CALLER(call_best_batch, best_batch_call, a->best = lab_best_batch(a->rows, a->table, a->bound))
LAB_CALLER(call_serve, serve_call, lab_serve(&a->server, a->requests, a->arrival, a->done))

#else

void lab_divide(size_t requests, int workers, const double *speed, size_t *count) {
    divide_call a = {requests, workers, speed, count};
    lab_remote(DIVIDE, &a);
}

size_t lab_gather(int workers, const lab_answers *from, size_t requests, size_t width, float *out,
                  unsigned char *seen) {
    LAB_ASK(GATHER, gather_call, missing, workers, (lab_answers *)from, requests, width, out, seen, 0);
}

size_t lab_best_batch(size_t rows, const lab_timing *table, double bound) {
    LAB_ASK(BEST_BATCH, best_batch_call, best, rows, table, bound, 0);
}

void lab_serve(const lab_server *s, size_t requests, const double *arrival, double *done) {
    serve_call a = {*s, requests, arrival, done};
    lab_remote(SERVE, &a);
}
#endif

const lab_function lab_functions[] = {
    {sizeof(divide_call), pass_divide, LAB_THEIRS(call_divide)},
    {sizeof(gather_call), pass_gather, LAB_THEIRS(call_gather)},
    {sizeof(best_batch_call), pass_best_batch, LAB_THEIRS(call_best_batch)},
    {sizeof(serve_call), pass_serve, LAB_THEIRS(call_serve)},
    {0},
};
