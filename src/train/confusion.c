#include "train/confusion.h"

#include <math.h>
#include <stdbool.h>

int gs_largest_logit(const float *logits, int classes) {
    int largest = 0;
    for (int k = 0; k < classes; k++) {
        if (isnan(logits[k])) return k;
        if (logits[k] > logits[largest]) largest = k;
    }
    return largest;
}

int gs_place_of_logit(const float *logits, int classes, int label) {
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
