/* How the calls of lab 20 travel. */
#include "tasks.h"

#include <string.h>

#include "remote/remote.h"

enum { RENDEZVOUS, SUM, FLAT_TIME, HIERARCHICAL_TIME, HOURS, IN_TIME, BEST, STORE_SET, STORE_GET };

static void pass_text(lab_wire *w, const char **text) {
    size_t size = lab_is_request(w) && *text ? strlen(*text) + 1 : 0;
    lab_value(w, &size, sizeof size);
    LAB_IN(w, *text, size);
}

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
    LAB_VALUE(w, a->nodes);
    LAB_VALUE(w, a->node);
    LAB_VALUE(w, a->local);
    LAB_VALUE(w, a->all);
    LAB_IN(w, a->ranks_of, (size_t)a->nodes);
    pass_text(w, &a->address);
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
    pass_text(w, &a->key);
    pass_text(w, &a->text);
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
    LAB_VALUE(w, a->each);
    LAB_VALUE(w, a->count);
    LAB_INOUT(w, a->data, a->count);
    lab_status(w, &a->status);
}

typedef struct time_call {
    lab_cluster c;
    double bytes, seconds;
} time_call;

static void pass_time(lab_wire *w, void *arguments) {
    time_call *a = arguments;
    LAB_VALUE(w, a->c.hosts);
    LAB_VALUE(w, a->c.each);
    LAB_VALUE(w, a->c.inside);
    LAB_VALUE(w, a->c.between);
    LAB_VALUE(w, a->bytes);
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
    LAB_VALUE(w, a->job.samples);
    LAB_VALUE(w, a->job.critical);
    LAB_VALUE(w, a->job.price);
    LAB_VALUE(w, a->rows);
    LAB_IN(w, a->row, (size_t)a->rows);
    LAB_VALUE(w, a->limit);
    LAB_RESULT(w, a->hours);
    LAB_RESULT(w, a->found);
}

#ifdef LAB_HAND_IN

static void call_rendezvous(void *arguments) {
    rendezvous_call *a = arguments;
    a->status = lab_rendezvous(a->nodes, a->ranks_of, a->node, a->local, a->address, &a->rank,
                               (char(*)[LAB_ADDRESS])a->peer);
}

gs_status store_set(const char *key, const char *text) {
    store_call a = {.key = key, .text = text};
    lab_remote(STORE_SET, &a);
    return a.status;
}

gs_status store_get(const char *key, char text[LAB_ADDRESS]) {
    store_call a = {.key = key, .got = text};
    lab_remote(STORE_GET, &a);
    return a.status;
}

static void call_sum(void *arguments) {
    sum_call *a = arguments;
    a->status = hierarchical_sum(a->s, a->each, a->data, a->count);
}

static void call_flat(void *arguments) {
    time_call *a = arguments;
    a->seconds = lab_flat_time(&a->c, a->bytes);
}

static void call_hierarchical(void *arguments) {
    time_call *a = arguments;
    a->seconds = lab_hierarchical_time(&a->c, a->bytes);
}

static void call_hours(void *arguments) {
    job_call *a = arguments;
    a->hours = lab_hours(&a->job, a->row);
}

static void call_in_time(void *arguments) {
    job_call *a = arguments;
    a->found = lab_in_time(&a->job, a->rows, a->row, a->limit);
}

static void call_best(void *arguments) {
    job_call *a = arguments;
    a->found = lab_best(&a->job, a->rows, a->row, a->limit);
}

#else

gs_status lab_rendezvous(int nodes, const int *ranks_of, int node, int local, const char *address, int *rank,
                         char (*peer)[LAB_ADDRESS]) {
    rendezvous_call a = {nodes, ranks_of, node, local, *rank, 0, address, (char *)peer, GS_OK};
    for (int n = 0; n < nodes; n++) a.all += ranks_of[n];
    lab_remote(RENDEZVOUS, &a);
    *rank = a.rank;
    return a.status;
}

static void call_set(void *arguments) {
    store_call *a = arguments;
    a->status = a->key && a->text ? store_set(a->key, a->text)
                                  : gs_fail(GS_E_USAGE, "store_set: the key or the text is NULL");
}

static void call_get(void *arguments) {
    store_call *a = arguments;
    a->status = a->key && a->got ? store_get(a->key, a->got)
                                 : gs_fail(GS_E_USAGE, "store_get: the key or the text is NULL");
}

gs_status hierarchical_sum(gs_sync *s, int each, float *data, size_t count) {
    sum_call a = {s, each, data, count, GS_OK};
    lab_remote(SUM, &a);
    return a.status;
}

double lab_flat_time(const lab_cluster *c, double bytes) {
    time_call a = {*c, bytes, 0};
    lab_remote(FLAT_TIME, &a);
    return a.seconds;
}

double lab_hierarchical_time(const lab_cluster *c, double bytes) {
    time_call a = {*c, bytes, 0};
    lab_remote(HIERARCHICAL_TIME, &a);
    return a.seconds;
}

double lab_hours(const lab_job *j, const lab_row *row) {
    job_call a = {.job = *j, .rows = 1, .row = row};
    lab_remote(HOURS, &a);
    return a.hours;
}

int lab_in_time(const lab_job *j, int rows, const lab_row *row, double deadline) {
    job_call a = {.job = *j, .rows = rows, .row = row, .limit = deadline};
    lab_remote(IN_TIME, &a);
    return a.found;
}

int lab_best(const lab_job *j, int rows, const lab_row *row, double worth) {
    job_call a = {.job = *j, .rows = rows, .row = row, .limit = worth};
    lab_remote(BEST, &a);
    return a.found;
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
