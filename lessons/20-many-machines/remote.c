/* How the calls of lab 20 travel. */
#include "tasks.h"

#include "remote/remote.h"

enum { RENDEZVOUS, SUM, FLAT_TIME, HIERARCHICAL_TIME, HOURS, IN_TIME, BEST, STORE_SET, STORE_GET };

typedef struct rendezvous_call {
    int nodes;
    const int *ranks_of;
    int node, local, rank, all;
    const char *address;
    char *peer;
    gs_status status;
} rendezvous_call;

static void pass_rendezvous(lab_wire *w, void *arguments) {
    rendezvous_call *a = arguments;
    LAB_VALUES(w, a->nodes, a->node, a->local, a->all);
    LAB_IN(w, a->ranks_of, (size_t)a->nodes);
    lab_pass_text(w, &a->address);
    LAB_INOUT(w, a->peer, (size_t)a->all * LAB_ADDRESS);
    LAB_RESULT(w, a->rank);
    lab_status(w, &a->status);
}

typedef struct store_call {
    const char *key, *text;
    char *got;
    gs_status status;
} store_call;

static void pass_store(lab_wire *w, void *arguments) {
    store_call *a = arguments;
    lab_pass_text(w, &a->key);
    lab_pass_text(w, &a->text);
    LAB_INOUT(w, a->got, LAB_ADDRESS);
    lab_status(w, &a->status);
}

typedef struct sum_call {
    gs_sync *s;
    int each;
    float *data;
    size_t count;
    gs_status status;
} sum_call;

static void pass_sum(lab_wire *w, void *arguments) {
    sum_call *a = arguments;
    lab_pass_sync(w, &a->s);
    LAB_VALUES(w, a->each, a->count);
    LAB_INOUT(w, a->data, a->count);
    lab_status(w, &a->status);
}

typedef struct time_call {
    lab_cluster c;
    double bytes, seconds;
} time_call;

static void pass_time(lab_wire *w, void *arguments) {
    time_call *a = arguments;
    LAB_VALUES(w, a->c.hosts, a->c.each, a->c.inside, a->c.between, a->bytes);
    LAB_RESULT(w, a->seconds);
}

typedef struct job_call {
    lab_job job;
    int rows;
    const lab_row *row;
    double limit, hours; /* limit: deadline or worth */
    int found;
} job_call;

static void pass_job(lab_wire *w, void *arguments) {
    job_call *a = arguments;
    LAB_VALUES(w, a->job.samples, a->job.critical, a->job.price, a->rows);
    LAB_IN(w, a->row, (size_t)a->rows);
    LAB_VALUE(w, a->limit);
    LAB_RESULT(w, a->hours);
    LAB_RESULT(w, a->found);
}

#ifdef LAB_HAND_IN

LAB_CALLER(call_rendezvous, rendezvous_call,
           a->status = lab_rendezvous(a->nodes, a->ranks_of, a->node, a->local, a->address, &a->rank,
                                      (char (*)[LAB_ADDRESS])a->peer))

gs_status store_set(const char *key, const char *text) {
    LAB_ASK(STORE_SET, store_call, status, .key = key, .text = text);
}

gs_status store_get(const char *key, char text[LAB_ADDRESS]) {
    LAB_ASK(STORE_GET, store_call, status, .key = key, .got = text);
}

LAB_CALLER(call_sum, sum_call, a->status = hierarchical_sum(a->s, a->each, a->data, a->count))
LAB_CALLER(call_flat, time_call, a->seconds = lab_flat_time(&a->c, a->bytes))
LAB_CALLER(call_hierarchical, time_call, a->seconds = lab_hierarchical_time(&a->c, a->bytes))
LAB_CALLER(call_hours, job_call, a->hours = lab_hours(&a->job, a->row))
LAB_CALLER(call_in_time, job_call, a->found = lab_in_time(&a->job, a->rows, a->row, a->limit))
LAB_CALLER(call_best, job_call, a->found = lab_best(&a->job, a->rows, a->row, a->limit))

#else

gs_status lab_rendezvous(int nodes, const int *ranks_of, int node, int local, const char *address, int *rank,
                         char (*peer)[LAB_ADDRESS]) {
    rendezvous_call a = {nodes, ranks_of, node, local, *rank, 0, address, (char *)peer, GS_OK};
    for (int n = 0; n < nodes; n++) a.all += ranks_of[n];
    lab_remote(RENDEZVOUS, &a);
    *rank = a.rank;
    return a.status;
}

LAB_CALLER(call_set, store_call,
           a->status = a->key && a->text ? store_set(a->key, a->text)
                                         : gs_fail(GS_E_USAGE, "store_set: the key or the text is NULL"))
LAB_CALLER(call_get, store_call,
           a->status = a->key && a->got ? store_get(a->key, a->got)
                                        : gs_fail(GS_E_USAGE, "store_get: the key or the text is NULL"))

gs_status hierarchical_sum(gs_sync *s, int each, float *data, size_t count) {
    LAB_ASK(SUM, sum_call, status, s, each, data, count, GS_OK);
}

double lab_flat_time(const lab_cluster *c, double bytes) {
    LAB_ASK(FLAT_TIME, time_call, seconds, *c, bytes, 0);
}

double lab_hierarchical_time(const lab_cluster *c, double bytes) {
    LAB_ASK(HIERARCHICAL_TIME, time_call, seconds, *c, bytes, 0);
}

double lab_hours(const lab_job *j, const lab_row *row) {
    LAB_ASK(HOURS, job_call, hours, .job = *j, .rows = 1, .row = row);
}

int lab_in_time(const lab_job *j, int rows, const lab_row *row, double deadline) {
    LAB_ASK(IN_TIME, job_call, found, .job = *j, .rows = rows, .row = row, .limit = deadline);
}

int lab_best(const lab_job *j, int rows, const lab_row *row, double worth) {
    LAB_ASK(BEST, job_call, found, .job = *j, .rows = rows, .row = row, .limit = worth);
}
#endif

const lab_function lab_functions[] = {
    {sizeof(rendezvous_call), pass_rendezvous, LAB_THEIRS(call_rendezvous)},
    {sizeof(sum_call), pass_sum, LAB_THEIRS(call_sum)},
    {sizeof(time_call), pass_time, LAB_THEIRS(call_flat)},
    {sizeof(time_call), pass_time, LAB_THEIRS(call_hierarchical)},
    {sizeof(job_call), pass_job, LAB_THEIRS(call_hours)},
    {sizeof(job_call), pass_job, LAB_THEIRS(call_in_time)},
    {sizeof(job_call), pass_job, LAB_THEIRS(call_best)},
    {sizeof(store_call), pass_store, LAB_OURS(call_set)},
    {sizeof(store_call), pass_store, LAB_OURS(call_get)},
    {0},
};
