/* The confusion matrix of `eval`: as a table where it fits the screen, else by class. */
#include "core/text.h"
#include "cli/draw/confusion.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdlib.h>

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

/* How wide the names are; what is not ASCII takes one column for each character. */
static int columns_of(const char *text) {
    int columns = 0;
    for (; *text; text++) columns += ((unsigned char)*text & 0xc0) != 0x80;
    return columns;
}

static int widest_name(const gs_result *r) {
    char room[GS_CLASS_NAME];
    int most = 0;
    for (int k = 0; k < r->classes; k++) {
        const int columns = columns_of(gs_class_name(&r->names, k, room));
        if (columns > most) most = columns;
    }
    return most;
}

/* At the left or, with a width below 0, at the right of that many columns. */
static void print_name(FILE *out, const char *name, int width) {
    const int fill = abs(width) - columns_of(name);
    fprintf(out, "%*s%s%*s", width < 0 && fill > 0 ? fill : 0, "", name, width > 0 && fill > 0 ? fill : 0,
            "");
}

/* What a row begins with: "cow", or where the columns have numbers, "2 cow". */
static void print_label(FILE *out, const gs_result *r, int label, bool numbered, int width) {
    char name[GS_CLASS_NAME], row[GS_CLASS_NAME + 16];
    gs_class_name(&r->names, label, name);
    snprintf(row, sizeof row, "%*d %s", snprintf(NULL, 0, "%d", r->classes - 1), label, name);
    print_name(out, numbered ? row : name, r->names.count ? width : -width);
}

/* first: columns for the label; each: for a class, which is headed by its name or, if numbered, by its number. */
static void print_table(FILE *out, const gs_result *r, bool numbered, int first, int each) {
    char room[GS_CLASS_NAME];
    fprintf(out, "\n%-*s   taken for\n%*s", first, "label", first, "");
    for (int k = 0; k < r->classes; k++)
        if (numbered)
            fprintf(out, "%*d", each, k);
        else
            print_name(out, gs_class_name(&r->names, k, room), -each);
    fprintf(out, "%10s\n", "accuracy");
    for (int label = 0; label < r->classes; label++) {
        print_label(out, r, label, numbered, first);
        for (int k = 0; k < r->classes; k++)
            fprintf(out, "%*.0f", each, r->confusion[label * r->classes + k]);
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

static void print_list(FILE *out, const gs_result *r, int first) {
    char room[GS_CLASS_NAME];
    fprintf(out, "\n%-*s  samples  accuracy  most often taken for\n", first, "label");
    for (int label = 0; label < r->classes; label++) {
        double samples, accuracy = accuracy_of(r, label, &samples);
        if (!(samples > 0)) continue;
        int mistake = usual_mistake(r, label);
        print_label(out, r, label, false, first);
        fprintf(out, " %8.0f %7.2f %%", samples, 100 * accuracy);
        if (mistake >= 0)
            fprintf(out, "  %s (%.0f)", gs_class_name(&r->names, mistake, room),
                    r->confusion[label * r->classes + mistake]);
        fprintf(out, "\n");
    }
}

static int larger(int a, int b) {
    return a > b ? a : b;
}

void gs_confusion_print(FILE *out, const gs_screen *screen, const gs_result *r) {
    enum { LABEL = 5, ACCURACY = 10 };
    double most = 0;
    for (int i = 0; i < r->classes * r->classes; i++) most = fmax(most, r->confusion[i]);
    const int number = snprintf(NULL, 0, "%d", r->classes) + 1, name = widest_name(r);
    const int count = larger(larger(snprintf(NULL, 0, "%.0f", most) + 1, number), 5);
    const int named = larger(count, name + 1), first = larger(LABEL, name);
    const int numbered_first = r->names.count ? larger(LABEL, number + name) : LABEL;
    if (r->names.count && first + r->classes * named + ACCURACY <= screen->width)
        print_table(out, r, false, first, named);
    else if (numbered_first + r->classes * count + ACCURACY <= screen->width)
        print_table(out, r, r->names.count > 0, numbered_first, count);
    else
        print_list(out, r, first);
}

/* JSON has escapes of its own for control characters. */
static const char *name_for_json(const gs_class_names *n, int k, char room[GS_CLASS_NAME]) {
    static const char controls[] =
        "\1\2\3\4\5\6\7\b\t\n\v\f\r\16\17\20\21\22\23\24\25\26\27\30\31\32\33\34\35\36\37\177";
    if (k >= n->count) return gs_class_name(n, k, room);
    return gs_printable_into(room, GS_CLASS_NAME, n->name[k], controls);
}

void gs_confusion_json(const gs_result *r, cJSON *o) {
    cJSON *matrix = cJSON_AddArrayToObject(o, "confusion"),
          *by_class = cJSON_AddArrayToObject(o, "class_accuracy"),
          *names = r->names.count ? cJSON_AddArrayToObject(o, "class_names") : NULL;
    char room[GS_CLASS_NAME];
    for (int label = 0; label < r->classes; label++) {
        double samples, accuracy = accuracy_of(r, label, &samples);
        cJSON *row = cJSON_CreateDoubleArray(r->confusion + (size_t)label * (size_t)r->classes, r->classes);
        cJSON_AddItemToArray(matrix, row);
        if (names) cJSON_AddItemToArray(names, cJSON_CreateString(name_for_json(&r->names, label, room)));
        cJSON_AddItemToArray(by_class, samples > 0 ? cJSON_CreateNumber(accuracy) : cJSON_CreateNull());
    }
}
