#include "train/ranking.h"

#include <math.h>
#include <stdlib.h>

int gs_largest_logit(const float *logits, int classes) {
    int largest = 0;
    for (int k = 0; k < classes; k++) {
        if (isnan(logits[k])) return k;
        if (logits[k] > logits[largest]) largest = k;
    }
    return largest;
}

int gs_rank_of_label(const float *logits, int classes, int label) {
    const float own = logits[label];
    int place = 0;
    for (int k = 0; k < classes; k++) {
        const bool equal = logits[k] == own || (isnan(logits[k]) && isnan(own));
        const bool larger = !isnan(own) && (isnan(logits[k]) || logits[k] > own);
        place += larger || (equal && k < label);
    }
    return place;
}

void gs_confusion_add(double *count, const float *logits, const int32_t *labels, size_t n, int classes) {
    for (size_t i = 0; i < n; i++)
        count[labels[i] * classes + gs_largest_logit(logits + i * (size_t)classes, classes)]++;
}

/* ---- the worst samples ---- */

static bool comes_before(const gs_wrong *a, const gs_wrong *b) {
    return a->loss > b->loss || (a->loss == b->loss && a->sample < b->sample);
}

void gs_worst_add(gs_worst *w, gs_wrong sample) {
    int place = w->count;
    while (place > 0 && comes_before(&sample, &w->of[place - 1])) place--;
    if (place == GS_WORST) return;
    if (w->count < GS_WORST) w->count++;
    for (int i = w->count - 1; i > place; i--) w->of[i] = w->of[i - 1];
    w->of[place] = sample;
}

/* loss = log sum_k exp(x[k] - largest) + largest - x[label] */
static gs_wrong judge(size_t sample, const float *logits, int label, int classes) {
    const int taken = gs_largest_logit(logits, classes);
    const double largest = (double)logits[taken];
    double sum = 1; /* the largest logit's own term, so that the sum is never 0 */
    for (int k = 0; k < classes; k++) sum += k == taken ? 0 : exp((double)logits[k] - largest);
    const double loss = log(sum) + largest - (double)logits[label];
    const bool finite = isfinite(loss);
    return (gs_wrong){sample, label, taken, finite ? loss : INFINITY, finite ? 1 / sum : NAN};
}

void gs_worst_add_logits(gs_worst *w, size_t first, const float *logits, const int32_t *labels, size_t n,
                         int classes) {
    for (size_t i = 0; i < n; i++)
        gs_worst_add(w, judge(first + i, logits + i * (size_t)classes, labels[i], classes));
}

/* Another program may have sent anything, so each received count is bounded. */
gs_status gs_worst_of_all(gs_comm *comm, gs_worst *w) {
    gs_worst *all;
    GS_TRY(GS_NEW(all, comm->size, "the worst samples of %d workers", comm->size));
    const gs_status status = gs_comm_all_gather(comm, w, all, sizeof *w, GS_U8);
    w->count = 0;
    for (int r = 0; status == GS_OK && r < comm->size; r++)
        for (int i = 0; i < all[r].count && i < GS_WORST; i++) gs_worst_add(w, all[r].of[i]);
    free(all);
    return status;
}
