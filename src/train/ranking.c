#include "train/ranking.h"

#include <math.h>
#include <stdbool.h>
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
    double sum = 1; /* of the largest itself: never 0 */
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

/* Each worker writes its list into its own rows and 0 elsewhere: their sum has the lists of all. */
enum { SAMPLE, LABEL, TAKEN, LOSS, SURE, FINITE, IS_THERE, COLUMNS };

static void write_rows(const gs_worst *w, double *row) {
    for (int i = 0; i < w->count; i++, row += COLUMNS) {
        const gs_wrong *s = &w->of[i];
        const bool finite = isfinite(s->loss); /* a sum with an infinity is not exact */
        row[SAMPLE] = (double)s->sample;
        row[LABEL] = s->label;
        row[TAKEN] = s->taken;
        row[LOSS] = finite ? s->loss : 0;
        row[SURE] = finite ? s->sure : 0;
        row[FINITE] = finite;
        row[IS_THERE] = 1;
    }
}

static gs_wrong read_row(const double *row) {
    const bool finite = row[FINITE] > 0;
    return (gs_wrong){(size_t)row[SAMPLE], (int)row[LABEL], (int)row[TAKEN], finite ? row[LOSS] : INFINITY,
                      finite ? row[SURE] : NAN};
}

gs_status gs_worst_of_all(gs_comm *comm, gs_worst *w) {
    const size_t rows = (size_t)comm->size * GS_WORST;
    double *all = calloc(rows * COLUMNS, sizeof *all);
    if (!all) return gs_fail(GS_E_MEMORY, "no memory for the worst samples of %d workers", comm->size);
    write_rows(w, all + (size_t)comm->rank * GS_WORST * COLUMNS);
    gs_status status = gs_comm_all_reduce(comm, all, rows * COLUMNS, GS_F64, GS_SUM);
    w->count = 0;
    for (size_t i = 0; status == GS_OK && i < rows; i++)
        if (all[i * COLUMNS + IS_THERE] > 0) gs_worst_add(w, read_row(all + i * COLUMNS));
    free(all);
    return status;
}
