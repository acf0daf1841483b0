/* How the calls of lab 14 travel. */
#include "tasks.h"

#include "remote/remote.h"

enum { SCALING, STATISTICS, BACKWARD, RUNNING, CUT };

typedef struct scaling_call {
    gs_comm *c;
    const uint8_t *images;
    size_t n, plane;
    double mean[COLOURS], deviation[COLOURS];
    gs_status status;
} scaling_call;

static void pass_scaling(lab_wire *w, void *arguments) {
    scaling_call *a = arguments;
    lab_pass_comm(w, &a->c);
    LAB_VALUES(w, a->n, a->plane);
    LAB_IN(w, a->images, a->n * COLOURS * a->plane);
    LAB_RESULT(w, a->mean);
    LAB_RESULT(w, a->deviation);
    lab_status(w, &a->status);
}

typedef struct statistics_call {
    gs_comm *c;
    double mine;
    size_t channels;
    float *mean, *var;
    double all, *numbers;
    gs_status status;
} statistics_call;

static void pass_statistics(lab_wire *w, void *arguments) {
    statistics_call *a = arguments;
    lab_pass_comm(w, &a->c);
    LAB_VALUES(w, a->mine, a->channels);
    LAB_INOUT(w, a->mean, a->channels);
    LAB_INOUT(w, a->var, a->channels);
    LAB_IN(w, a->numbers, 1 + 2 * a->channels);
    LAB_RESULT(w, a->all);
    lab_status(w, &a->status);
}

typedef struct backward_call {
    gs_comm *c;
    norm b;
    float *dx, *dweight, *dbias;
    double *numbers;
    gs_status status;
} backward_call;

static void pass_backward(lab_wire *w, void *arguments) {
    backward_call *a = arguments;
    norm *b = &a->b;
    lab_pass_comm(w, &a->c);
    LAB_VALUES(w, b->n, b->channels, b->plane, b->eps, b->all);
    const size_t count = b->n * b->channels * b->plane;
    LAB_IN(w, b->x, count);
    LAB_IN(w, b->dy, count);
    LAB_IN(w, b->weight, b->channels);
    LAB_IN(w, b->mean, b->channels);
    LAB_IN(w, b->var, b->channels);
    LAB_INOUT(w, a->dx, count);
    LAB_INOUT(w, a->dweight, b->channels);
    LAB_INOUT(w, a->dbias, b->channels);
    LAB_IN(w, a->numbers, 2 * b->channels);
    lab_status(w, &a->status);
}

typedef struct running_call {
    group g;
    size_t channels;
    const float *mean, *var, *running_mean, *running_var;
    float momentum, *next_mean, *next_var;
    bool first;
} running_call;

static void pass_running(lab_wire *w, void *arguments) {
    running_call *a = arguments;
    LAB_VALUES(w, a->g.samples, a->g.numbers, a->channels, a->momentum, a->first);
    LAB_IN(w, a->mean, a->channels);
    LAB_IN(w, a->var, a->channels);
    LAB_IN(w, a->running_mean, a->channels);
    LAB_IN(w, a->running_var, a->channels);
    LAB_INOUT(w, a->next_mean, a->channels);
    LAB_INOUT(w, a->next_var, a->channels);
}

typedef struct cut_call {
    size_t total;
    int i, n;
    size_t together;
    gs_shard part;
} cut_call;

static void pass_cut(lab_wire *w, void *arguments) {
    cut_call *a = arguments;
    LAB_VALUES(w, a->total, a->i, a->n, a->together);
    LAB_RESULT(w, a->part);
}

#ifdef LAB_HAND_IN

LAB_CALLER(call_scaling, scaling_call,
           a->status = colour_scaling(a->c, a->images, a->n, a->plane, a->mean, a->deviation))
LAB_CALLER(call_statistics, statistics_call,
           a->status = shared_statistics(a->c, a->mine, a->channels, a->mean, a->var, &a->all, a->numbers))
LAB_CALLER(call_backward, backward_call,
           a->status = shared_backward(a->c, &a->b, a->dx, a->dweight, a->dbias, a->numbers))
LAB_CALLER(call_running, running_call,
           running_part(&a->g, a->channels, a->mean, a->var, a->running_mean, a->running_var, a->momentum,
                        a->next_mean, a->next_var, a->first))
LAB_CALLER(call_cut, cut_call, a->part = gs_schedule_cut(a->total, a->i, a->n, a->together))

#else

gs_status colour_scaling(gs_comm *c, const uint8_t *images, size_t n, size_t plane, double mean[COLOURS],
                         double deviation[COLOURS]) {
    scaling_call a = {.c = c, .images = images, .n = n, .plane = plane};
    lab_remote(SCALING, &a);
    for (size_t k = 0; k < COLOURS; k++) {
        mean[k] = a.mean[k];
        deviation[k] = a.deviation[k];
    }
    return a.status;
}

gs_status shared_statistics(gs_comm *c, double mine, size_t channels, float *mean, float *var, double *all,
                            double *numbers) {
    statistics_call a = {c, mine, channels, mean, var, 0, numbers, GS_OK};
    lab_remote(STATISTICS, &a);
    *all = a.all;
    return a.status;
}

gs_status shared_backward(gs_comm *c, const norm *b, float *dx, float *dweight, float *dbias,
                          double *numbers) {
    LAB_ASK(BACKWARD, backward_call, status, c, *b, dx, dweight, dbias, numbers, GS_OK);
}

void running_part(const group *g, size_t channels, const float *mean, const float *var,
                  const float *running_mean, const float *running_var, float momentum, float *next_mean,
                  float *next_var, bool first) {
    running_call a = {*g,          channels, mean,      var,      running_mean,
                      running_var, momentum, next_mean, next_var, first};
    lab_remote(RUNNING, &a);
}

gs_shard lab_cut(size_t total, int i, int n, size_t together) {
    LAB_ASK(CUT, cut_call, part, total, i, n, together, {0, 0});
}

/* The library trusts a part, so a wrong one ends here. */
gs_shard gs_schedule_cut(size_t total, int i, int n, size_t together) {
    const gs_shard part = lab_cut(total, i, n, together);
    if (part.first > total || part.count > total - part.first)
        gs_bug("gs_schedule_cut: %zu samples from %zu on, of %zu", part.count, part.first, total);
    return part;
}
#endif

const lab_function lab_functions[] = {
    {sizeof(scaling_call), pass_scaling, LAB_THEIRS(call_scaling)},
    {sizeof(statistics_call), pass_statistics, LAB_THEIRS(call_statistics)},
    {sizeof(backward_call), pass_backward, LAB_THEIRS(call_backward)},
    {sizeof(running_call), pass_running, LAB_THEIRS(call_running)},
    {sizeof(cut_call), pass_cut, LAB_THEIRS(call_cut)},
    {0},
};
