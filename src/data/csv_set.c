#include "data/csv_set.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "core/text.h"
#include "io/file.h"

enum { PATH_SIZE = 4096, TEST_EACH = 10, FILE_MOST = INT_MAX /* bytes */ };

static const char *const file_names[] = {[GS_TRAIN] = "train.csv", [GS_TEST] = "test.csv"};

static bool is_one_file(const char *where) {
    return gs_ends_with(where, strlen(where), ".csv") && access(where, F_OK) == 0;
}

/* The file of this split; false: there is none. */
static bool path_of(const char *where, gs_split split, char path[PATH_SIZE]) {
    const char *name = is_one_file(where) ? "" : file_names[split];
    return snprintf(path, PATH_SIZE, "%s%s%s", where, *name ? "/" : "", name) < PATH_SIZE &&
           access(path, F_OK) == 0;
}

bool gs_csv_set_is_at(const char *where) {
    char path[PATH_SIZE];
    return path_of(where, GS_TRAIN, path) || path_of(where, GS_TEST, path);
}

bool gs_csv_reads(const char *where, const char *file) {
    char path[PATH_SIZE];
    return (path_of(where, GS_TRAIN, path) && gs_file_is_same(path, file)) ||
           (path_of(where, GS_TEST, path) && gs_file_is_same(path, file));
}

/* ---- lines and columns ---- */

typedef struct table {
    const char *path;
    const char *at, *line_end, *end; /* the next field; of the line, without its end; of the text */
    int line, column;                /* of what was read last, from 1 */
    int columns, targets; /* of each line; of these how many are targets, 0: the last one is a label */
} table;

/* Go to the next line that is not empty; false: there is none. */
static bool next_line(table *t) {
    while (t->line == 0 || t->line_end < t->end) {
        t->at = t->line == 0 ? t->at : t->line_end + 1;
        const char *end = memchr(t->at, '\n', (size_t)(t->end - t->at));
        t->line_end = end ? end : t->end;
        t->line++;
        t->column = 0;
        if (strspn(t->at, " \t\r") < (size_t)(t->line_end - t->at)) return true;
    }
    return false;
}

static bool is_space(char c) {
    return c == ' ' || c == '\t' || c == '\r';
}

/* The next field of the line, without the spaces around it; false: there is none. */
static bool next_field(table *t, const char **field, int *length) {
    if (!t->at) return false;
    const char *comma = memchr(t->at, ',', (size_t)(t->line_end - t->at)), *end = comma ? comma : t->line_end;
    while (t->at < end && is_space(*t->at)) t->at++;
    *field = t->at;
    t->at = comma ? comma + 1 : NULL;
    while (end > *field && is_space(end[-1])) end--;
    *length = (int)(end - *field);
    t->column++;
    return true;
}

static bool is_number(const char *field, int length, float *x) {
    char *end;
    *x = length ? strtof(field, &end) : 0;
    return length && end == field + length;
}

/* GS_E_FORMAT: "a.csv, line 3, column 2: ..." */
static gs_status GS_PRINTF(2, 3) wrong(const table *t, const char *format, ...) {
    char problem[300];
    va_list args;
    va_start(args, format);
    vsnprintf(problem, sizeof problem, format, args);
    va_end(args);
    return gs_fail(GS_E_FORMAT, "%s, line %d, column %d: %s", t->path, t->line, t->column, problem);
}

/* The first line: how many columns, and how many of them are targets? It is a header if none of them is a number. */
static gs_status read_header(table *t, bool *is_header) {
    const char *field;
    int length;
    float x;
    *is_header = true;
    if (!next_line(t))
        return gs_fail(GS_E_FORMAT, "%s is empty; wanted lines of numbers with commas between them", t->path);
    while (next_field(t, &field, &length)) {
        *is_header &= !is_number(field, length, &x);
        length -= length > 1 && *field == '"';
        field += *field == '"';
        t->targets = length >= 6 && strncmp(field, "target", 6) == 0 ? t->targets + 1 : 0;
    }
    t->columns = t->column;
    if (t->columns < 2 || t->targets == t->columns)
        return wrong(t, "it is the only kind of column; wanted inputs before a label or a target");
    if (t->columns > GS_SHAPE_MOST) return wrong(t, "at most %d columns are allowed", GS_SHAPE_MOST);
    return GS_OK;
}

/* The numbers of a line to `to`; NULL: they are only checked. */
static gs_status read_line(table *t, float *to) {
    const char *field;
    int length;
    float x;
    while (next_field(t, &field, &length)) {
        const bool number = is_number(field, length, &x);
        if (t->column > t->columns) break;
        if (!number || !isfinite(x)) {
            char text[40];
            snprintf(text, sizeof text, "%.*s", length, field);
            return wrong(t, "'%s' is no %snumber", gs_printable(text), number ? "finite " : "");
        }
        if (t->column == t->columns && t->targets == 0 && !(x >= 0 && x <= UCHAR_MAX && x == floorf(x)))
            return wrong(t, "the label is %g; wanted a whole number from 0 to %d", (double)x, UCHAR_MAX);
        if (to) to[t->column - 1] = x;
    }
    if (t->column != t->columns)
        return wrong(t, "the line %s here; wanted %d columns, as in the first line",
                     t->column < t->columns ? "ends" : "goes on", t->columns);
    return GS_OK;
}

/* ---- the set ---- */

static void take_row(gs_dataset *d, const table *t, size_t i, const float *row) {
    const size_t inputs = gs_shape_size(d->shape);
    memcpy(d->inputs + i * inputs, row, inputs * sizeof *row);
    if (d->targets)
        memcpy(d->targets + i * (size_t)t->targets, row + inputs, (size_t)t->targets * sizeof *row);
    if (d->targets) return;
    d->labels[i] = (unsigned char)row[inputs];
    if (d->labels[i] >= d->classes) d->classes = d->labels[i] + 1;
}

/* The lines of a split, all that is behind the header if it has a file of its own: counted, or taken. */
static gs_status each_row(table t, gs_split split, bool alone, float *row, size_t *count, gs_dataset *d) {
    *count = 0;
    for (size_t i = 1; next_line(&t); i++) {
        GS_TRY(read_line(&t, row));
        if (!alone && (i % TEST_EACH == 0) != (split == GS_TEST)) continue;
        if (d) take_row(d, &t, *count, row);
        ++*count;
    }
    return GS_OK;
}

static gs_status read_set(table *t, gs_split split, bool alone, gs_dataset *d) {
    bool header;
    float *row;
    const table first = *t;
    GS_TRY(read_header(t, &header));
    const table rows =
        header ? *t : (table){.path = t->path, .at = first.at, .end = t->end, .columns = t->columns};
    const int outputs = t->targets > 0 ? t->targets : 1;
    GS_TRY(each_row(rows, split, alone, NULL, &d->count, NULL));
    if (d->count == 0 || d->count > UINT32_MAX)
        return gs_fail(GS_E_FORMAT, "%s has %zu samples %s; wanted 1 to %u", t->path, d->count,
                       split == GS_TEST ? "to test" : "to train on", UINT32_MAX);
    d->shape = (gs_shape){t->columns - outputs, 1, 1, 0};
    d->outputs = t->targets;
    GS_TRY(GS_NEW(row, (size_t)t->columns, "a line of %s", t->path));
    gs_status status =
        GS_NEW(d->inputs, d->count * gs_shape_size(d->shape), "%zu samples of %s", d->count, t->path);
    if (status == GS_OK && t->targets > 0)
        status = GS_NEW(d->targets, d->count * (size_t)outputs, "%zu samples of %s", d->count, t->path);
    else if (status == GS_OK)
        status = GS_NEW(d->labels, d->count, "%zu samples of %s", d->count, t->path);
    if (status == GS_OK) status = each_row(rows, split, alone, row, &d->count, d);
    free(row);
    return status;
}

gs_status gs_csv_set_load(const char *where, gs_split split, gs_labels labels, gs_dataset *d) {
    char path[PATH_SIZE], *text;
    size_t bytes;
    (void)labels; /* a sample has but one */
    if (!path_of(where, split, path)) return gs_fail(GS_E_FILE, "%s has no %s", where, file_names[split]);
    GS_TRY(gs_file_read(path, FILE_MOST, &text, &bytes));
    gs_status status = gs_foreign_check_text(path, text, bytes);
    table t = {.path = path, .at = text, .end = text + bytes};
    if (bytes >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
        t.at += 3; /* UTF-8's mark, as spreadsheets write it */
    if (status == GS_OK) status = read_set(&t, split, !is_one_file(where), d);
    free(text);
    return status;
}
