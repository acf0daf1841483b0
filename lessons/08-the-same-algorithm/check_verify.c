/* Lesson 8: the check of 8.5, who differs. With lists of checksums, then in training, where one bit of one weight is
 * harmed on one worker. */
#include "check.h"

#include <stdio.h>
#include <string.h>

/* Rows of drawn numbers (lab_pick). */
enum { WORKERS_ROW = 100, TENSORS_ROW, CHECKSUMS_ROW, HARM_ROW };

enum { MOST_CHECKSUMS = 24 };

typedef struct checksums {
    int workers, tensors;
    uint32_t sum[MOST_CHECKSUMS];
    int worker, tensor; /* -1: all are the same */
} checksums;

static gs_status check_checksums(const checksums *k) {
    int worker = -1, tensor = -1;
    char text[200] = "";
    for (int i = 0; i < k->workers * k->tensors; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%u",
                 i == 0               ? ""
                 : i % k->tensors > 0 ? " "
                                      : " | ",
                 k->sum[i]);
    bool found = first_different(k->sum, k->workers, k->tensors, &worker, &tensor);
    if (found == (k->worker >= 0) && (!found || (worker == k->worker && tensor == k->tensor))) return GS_OK;
    char got[60] = "all are the same", wanted[60] = "all are the same";
    if (found) snprintf(got, sizeof got, "worker %d, tensor %d", worker, tensor);
    if (k->worker >= 0) snprintf(wanted, sizeof wanted, "worker %d, tensor %d", k->worker, k->tensor);
    return gs_fail(GS_E_DIFFER, "checksums %s (by worker): got %s, expected %s", text, got, wanted);
}

/* Who differs in tensor t, as tasks.h says it; -1: nobody. */
static int differs_in(const checksums *k, int t) {
    int best = 0, best_count = 0;
    for (int r = 0; r < k->workers; r++) {
        int count = 0;
        for (int other = 0; other < k->workers; other++)
            count += k->sum[other * k->tensors + t] == k->sum[r * k->tensors + t];
        if (count <= best_count) continue;
        best = r;
        best_count = count;
    }
    for (int r = 0; r < k->workers; r++)
        if (k->sum[r * k->tensors + t] != k->sum[best * k->tensors + t]) return r;
    return -1;
}

/* Most workers have checksum t in tensor t. */
static gs_status check_drawn_checksums(size_t i) {
    checksums k = {1 + (int)lab_pick(WORKERS_ROW, i, 6), 1 + (int)lab_pick(TENSORS_ROW, i, 4), {0}, -1, -1};
    for (int j = 0; j < k.workers * k.tensors; j++) {
        size_t pick = lab_pick(CHECKSUMS_ROW, MOST_CHECKSUMS * i + (size_t)j, 6);
        k.sum[j] = (uint32_t)(j % k.tensors) + (uint32_t)(pick < 3 ? pick : 0);
    }
    for (int t = 0; t < k.tensors && k.worker < 0; t++)
        if ((k.worker = differs_in(&k, t)) >= 0) k.tensor = t;
    return check_checksums(&k);
}

static int harmed_rank, harmed_tensor;

/* After step 8: one bit of one weight. */
static void do_harm(gs_worker *w) {
    uint32_t bits;
    if (w->comm->rank != harmed_rank || w->step != 8) return;
    gs_mem at = gs_at(w->model->weights, w->model->param[harmed_tensor]->at);
    if (w->device->ops->read(w->device, &bits, at, sizeof bits) != GS_OK) gs_bug("%s", gs_message());
    bits ^= 1;
    if (w->device->ops->write(w->device, at, &bits, sizeof bits) != GS_OK) gs_bug("%s", gs_message());
}

/* Training with --verify 4: without harm it goes through; after it, it stops with this message. */
static gs_status check_verify(const char *devices, int rank, int tensor, const char *wanted) {
    gs_settings s = lab_run_on(devices);
    gs_result r = {0};
    s.steps = 12;
    s.verify = 4;
    GS_TRY(gs_context(gs_train(&s, NULL, &r), "a sound run with --verify 4"));
    gs_result_free(&r);
    s.test_hook = do_harm;
    harmed_rank = rank;
    harmed_tensor = tensor;
    gs_status status = gs_train(&s, NULL, &r);
    gs_result_free(&r);
    char message[400];
    snprintf(message, sizeof message, "%s", status == GS_OK ? "nothing was found" : gs_message());
    if (status == GS_E_DIFFER && strstr(message, wanted)) return GS_OK;
    return gs_fail(GS_E_DIFFER, "training with --verify 4 and one wrong bit: expected \"%s\", got \"%s\"",
                   wanted, message);
}

gs_status lab_check_who_differs(void) {
    static const checksums cases[] = {
        {1, 2, {5, 6}, -1, -1},
        {2, 1, {7, 7}, -1, -1},
        {2, 1, {7, 8}, 1, 0},
        {3, 1, {7, 8, 7}, 1, 0},
        {3, 1, {8, 7, 7}, 0, 0},          /* most workers have another one than worker 0 */
        {3, 2, {1, 2, 1, 2, 1, 3}, 2, 1}, /* the second tensor */
        {3, 2, {1, 2, 1, 3, 4, 2}, 2, 0}, /* the first tensor that differs, not the first worker */
        {4, 1, {1, 1, 2, 2}, 2, 0},       /* equally many: that of the lowest rank counts */
        {4, 1, {3, 2, 2, 1}, 0, 0},       /* three kinds */
        {4, 3, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, -1, -1},
        {4, 3, {9, 4, 0, 9, 4, 0, 9, 4, 7, 9, 4, 0}, 2, 2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) GS_TRY(check_checksums(&cases[i]));
    for (size_t i = 0; i < 60; i++) GS_TRY(check_drawn_checksums(i));
    GS_TRY(check_verify("cpu,cpu,cpu", 2, 4, "step 8: worker 2's 6.weight differs"));
    GS_TRY(check_verify("cpu,cpu,cpu", 0, 0, "step 8: worker 0's 0.weight differs"));
    static const char *const tensors[] = {"0.weight", "0.bias", "4.weight", "4.bias", "6.weight", "6.bias"};
    int rank = (int)lab_pick(HARM_ROW, 0, 3), tensor = (int)lab_pick(HARM_ROW, 1, 6);
    char wanted[100];
    snprintf(wanted, sizeof wanted, "step 8: worker %d's %s differs", rank, tensors[tensor]);
    return check_verify("cpu,cpu,cpu", rank, tensor, wanted);
}
