#include "train/confusion.h"

#include <math.h>

int gs_largest_logit(const float *logits, int classes) {
    int largest = 0;
    for (int k = 0; k < classes; k++) {
        if (isnan(logits[k])) return k;
        if (logits[k] > logits[largest]) largest = k;
    }
    return largest;
}

void gs_confusion_add(double *count, const float *logits, const int32_t *labels, size_t n, int classes) {
    for (size_t i = 0; i < n; i++)
        count[labels[i] * classes + gs_largest_logit(logits + i * (size_t)classes, classes)]++;
}
