/* The confusion matrix of `eval`: as a table where it fits the screen, else by class. */
#include "cli/draw/confusion.h"

#include <cjson/cJSON.h>
#include <math.h>

/* The samples with this label, and how many of them were taken for what they are; the share is NaN without any. */
static double accuracy_of(const gs_result *r, int label, double *samples) {
    const double *row = r->confusion + (size_t)label * (size_t)r->classes;
    *samples = 0;
    for (int k = 0; k < r->classes; k++) *samples += row[k];
    return row[label] / *samples;
}

static void print_accuracy(FILE *out, const gs_result *r, int label) {
    double samples, accuracy = accuracy_of(r, label, &samples);
    if (samples > 0)
        fprintf(out, "%8.2f %%\n", 100 * accuracy);
    else
        fprintf(out, "%10s\n", "-");
}

static void print_table(FILE *out, const gs_result *r, int width) {
    fprintf(out, "\nlabel   taken for\n%5s", "");
    for (int k = 0; k < r->classes; k++) fprintf(out, "%*d", width, k);
    fprintf(out, "%10s\n", "accuracy");
    for (int label = 0; label < r->classes; label++) {
        fprintf(out, "%5d", label);
        for (int k = 0; k < r->classes; k++)
            fprintf(out, "%*.0f", width, r->confusion[label * r->classes + k]);
        print_accuracy(out, r, label);
    }
}

/* What a label was taken for most often where it was not recognised; -1: always recognised. */
static int usual_mistake(const gs_result *r, int label) {
    const double *row = r->confusion + (size_t)label * (size_t)r->classes;
    int most = -1;
    for (int k = 0; k < r->classes; k++)
        if (k != label && row[k] > 0 && (most < 0 || row[k] > row[most])) most = k;
    return most;
}

static void print_list(FILE *out, const gs_result *r) {
    fprintf(out, "\nlabel  samples  accuracy  most often taken for\n");
    for (int label = 0; label < r->classes; label++) {
        double samples, accuracy = accuracy_of(r, label, &samples);
        if (!(samples > 0)) continue;
        int mistake = usual_mistake(r, label);
        fprintf(out, "%5d %8.0f %7.2f %%", label, samples, 100 * accuracy);
        if (mistake >= 0) fprintf(out, "  %d (%.0f)", mistake, r->confusion[label * r->classes + mistake]);
        fprintf(out, "\n");
    }
}

void gs_confusion_print(FILE *out, const gs_screen *screen, const gs_result *r) {
    double most = 0;
    for (int i = 0; i < r->classes * r->classes; i++) most = fmax(most, r->confusion[i]);
    int width = snprintf(NULL, 0, "%.0f", most) + 1, name = snprintf(NULL, 0, "%d", r->classes) + 1;
    width = width < name ? name : width;
    if (width < 5) width = 5;
    if (5 + r->classes * width + 10 <= screen->width)
        print_table(out, r, width);
    else
        print_list(out, r);
}

void gs_confusion_json(const gs_result *r, cJSON *o) {
    cJSON *matrix = cJSON_AddArrayToObject(o, "confusion"),
          *by_class = cJSON_AddArrayToObject(o, "class_accuracy");
    for (int label = 0; label < r->classes; label++) {
        double samples, accuracy = accuracy_of(r, label, &samples);
        cJSON *row = cJSON_CreateDoubleArray(r->confusion + (size_t)label * (size_t)r->classes, r->classes);
        cJSON_AddItemToArray(matrix, row);
        cJSON_AddItemToArray(by_class, samples > 0 ? cJSON_CreateNumber(accuracy) : cJSON_CreateNull());
    }
}
