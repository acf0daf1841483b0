/* How the calls of lab 8 travel. */
#include "tasks.h"

#include "remote/remote.h"

enum { TREE_SUM, TREE_ACROSS, LEAVES_OF, MEAN_OF_PARTS, FIRST_DIFFERENT };

/* ---- sums ---- */

/* The parts but for the first are scratch memory. */
typedef struct tree_call {
    float *part[GS_EXACT_SHARDS];
    int parts;
    size_t count;
} tree_call;

static void pass_tree(lab_wire *w, void *arguments) {
    tree_call *a = arguments;
    LAB_VALUES(w, a->parts, a->count);
    LAB_INOUT(w, a->part[0], a->count);
    for (int p = 1; p < a->parts && p < GS_EXACT_SHARDS; p++) LAB_IN(w, a->part[p], a->count);
}

typedef struct across_call {
    gs_comm *c;
    float *sum, *arrived;
    size_t count;
    gs_status status;
} across_call;

static void pass_across(lab_wire *w, void *arguments) {
    across_call *a = arguments;
    lab_pass_comm(w, &a->c);
    LAB_VALUE(w, a->count);
    LAB_INOUT(w, a->sum, a->count);
    LAB_IN(w, a->arrived, a->count);
    lab_status(w, &a->status);
}

typedef struct mean_call {
    gs_comm *c;
    float *mean;
    size_t count, samples;
    gs_status status;
} mean_call;

static void pass_mean(lab_wire *w, void *arguments) {
    mean_call *a = arguments;
    lab_pass_comm(w, &a->c);
    LAB_VALUES(w, a->count, a->samples);
    LAB_INOUT(w, a->mean, a->count + 1);
    lab_status(w, &a->status);
}

/* ---- the others ---- */

typedef struct leaves_call {
    int rank, workers;
    gs_shard leaves;
} leaves_call;

static void pass_leaves(lab_wire *w, void *arguments) {
    leaves_call *a = arguments;
    LAB_VALUES(w, a->rank, a->workers);
    LAB_RESULT(w, a->leaves);
}

typedef struct different_call {
    const uint32_t *checksum;
    int workers, tensors, worker, tensor;
    int found;
} different_call;

static void pass_different(lab_wire *w, void *arguments) {
    different_call *a = arguments;
    LAB_VALUES(w, a->workers, a->tensors, a->worker, a->tensor);
    LAB_IN(w, a->checksum, (size_t)a->workers * (size_t)a->tensors);
    LAB_RESULT(w, a->worker);
    LAB_RESULT(w, a->tensor);
    LAB_RESULT(w, a->found);
}

#ifdef LAB_HAND_IN

static void call_tree(void *arguments) {
    tree_call *a = arguments;
    tree_sum(a->part, a->parts, a->count);
}

static void call_across(void *arguments) {
    across_call *a = arguments;
    a->status = tree_across(a->c, a->sum, a->arrived, a->count);
}

static void call_leaves(void *arguments) {
    leaves_call *a = arguments;
    a->leaves = leaves_of(a->rank, a->workers);
}

static void call_mean(void *arguments) {
    mean_call *a = arguments;
    a->status = mean_of_parts(a->c, a->mean, a->count, a->samples);
}

static void call_different(void *arguments) {
    different_call *a = arguments;
    a->found = first_different(a->checksum, a->workers, a->tensors, &a->worker, &a->tensor);
}

#else

void tree_sum(float *const *part, int parts, size_t count) {
    tree_call a = {.parts = parts, .count = count};
    for (int p = 0; p < parts; p++) a.part[p] = part[p];
    lab_remote(TREE_SUM, &a);
}

gs_status tree_across(gs_comm *c, float *sum, float *arrived, size_t count) {
    across_call a = {c, sum, arrived, count, GS_OK};
    lab_remote(TREE_ACROSS, &a);
    return a.status;
}

gs_shard leaves_of(int rank, int workers) {
    leaves_call a = {rank, workers, {0, 0}};
    lab_remote(LEAVES_OF, &a);
    return a.leaves;
}

gs_status mean_of_parts(gs_comm *c, float *mean, size_t count, size_t samples) {
    mean_call a = {c, mean, count, samples, GS_OK};
    lab_remote(MEAN_OF_PARTS, &a);
    return a.status;
}

bool first_different(const uint32_t *checksum, int workers, int tensors, int *worker, int *tensor) {
    different_call a = {checksum, workers, tensors, *worker, *tensor, 0};
    lab_remote(FIRST_DIFFERENT, &a);
    *worker = a.worker;
    *tensor = a.tensor;
    return a.found != 0;
}
#endif

const lab_function lab_functions[] = {
    {sizeof(tree_call), pass_tree, LAB_THEIRS(call_tree)},
    {sizeof(across_call), pass_across, LAB_THEIRS(call_across)},
    {sizeof(leaves_call), pass_leaves, LAB_THEIRS(call_leaves)},
    {sizeof(mean_call), pass_mean, LAB_THEIRS(call_mean)},
    {sizeof(different_call), pass_different, LAB_THEIRS(call_different)},
    {0},
};
