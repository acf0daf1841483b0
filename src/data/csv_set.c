#include "data/csv_set.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "core/memory.h"
#include "core/text.h"
#include "io/file.h"

enum { PATH_SIZE = 4096, TEST_EACH = 10, FILE_MOST = INT_MAX /* bytes */ };

static const char *const file_names[] = {[GS_TRAIN] = "train.csv", [GS_TEST] = "test.csv"};

static bool is_one_file(const char *where) {
    return gs_ends_with(where, strlen(where), ".csv") && access(where, F_OK) == 0;
}

/* path = the file of this split. False: there is no such file. */
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
    const char *path, *next, *at, *line_end, *end; /* next: next line; at: next field, NULL after the last */
    int line, column, columns, targets;            /* line, column: of the field last read, from 1 */
    float *numbers;                                /* (rows, columns) */
    size_t used, room, rows;
} table;

/* Move to the next line that is not empty. False: the file has ended. */
static bool next_line(table *t) {
    for (const char *from; (from = t->next) < t->end;) {
        const char *end = memchr(from, '\n', (size_t)(t->end - from));
        t->at = from;
        t->line_end = end ? end : t->end;
        t->next = end ? end + 1 : t->end;
        t->line++;
        t->column = 0;
        if (strspn(from, " \t\r") < (size_t)(t->line_end - from)) return true;
    }
    return false;
}

static bool is_space(char c) {
    return c == ' ' || c == '\t' || c == '\r';
}

/* The next field of the line, without spaces around it; *x: its value if it is a number. False: the line has ended. */
static bool next_field(table *t, const char **field, int *length, float *x, bool *is_number) {
    if (!t->at) return false;
    const char *comma = memchr(t->at, ',', (size_t)(t->line_end - t->at)), *end = comma ? comma : t->line_end;
    char *number_end = NULL;
    for (*field = t->at; *field < end && is_space(**field);) ++*field;
    while (end > *field && is_space(end[-1])) end--;
    *length = (int)(end - *field);
    *x = *length ? strtof(*field, &number_end) : NAN;
    *is_number = number_end == end;
    t->at = comma ? comma + 1 : NULL;
    t->column++;
    return true;
}

/* GS_E_FORMAT: "a.csv, line 3, column 2: ..." */
static gs_status GS_PRINTF(2, 3) wrong(const table *t, const char *format, ...) {
    char problem[300];
    va_list args;
    va_start(args, format);
    vsnprintf(problem, sizeof problem, format, args);
    va_end(args);
    gs_fail(GS_E_FORMAT, "%s, line %d, column %d: %s", t->path, t->line, t->column, problem);
    return GS_E_FORMAT; /* clang's analyzer does not know what gs_fail returns */
}

/* Count columns and targets in the first line. If that line contains a number, it is read again as a row. */
static gs_status read_header(table *t) {
    const char *field;
    int length;
    float x;
    bool is_number, is_row = false;
    if (!next_line(t))
        return gs_fail(GS_E_FORMAT, "%s is empty; wanted lines of numbers with commas between them", t->path),
               GS_E_FORMAT;
    const char *line = t->at;
    while (next_field(t, &field, &length, &x, &is_number)) {
        is_row |= is_number;
        const int quote = length > 1 && *field == '"';
        t->targets = length >= 6 + quote && strncmp(field + quote, "target", 6) == 0 ? t->targets + 1 : 0;
    }
    t->columns = t->column;
    if (t->columns < 2 || t->targets == t->columns)
        return wrong(t, "it is the only kind of column; wanted inputs before a label or a target");
    if (t->columns > GS_SHAPE_MOST) return wrong(t, "at most %d columns are allowed", GS_SHAPE_MOST);
    if (is_row) t->next = line, t->line--, t->targets = 0;
    return GS_OK;
}

static gs_status read_row(table *t) {
    const char *field;
    int length;
    float x;
    bool is_number;
    while (next_field(t, &field, &length, &x, &is_number) && t->column <= t->columns) {
        if (!is_number || !isfinite(x)) {
            char text[40];
            snprintf(text, sizeof text, "%.*s", length, field);
            return wrong(t, "'%s' is no %snumber", gs_printable(text), is_number ? "finite " : "");
        }
        if (t->column == t->columns && t->targets == 0 && !(x >= 0 && x <= UCHAR_MAX && x == floorf(x)))
            return wrong(t, "the label is %g; wanted a whole number from 0 to %d", (double)x, UCHAR_MAX);
        if (!gs_grow(&t->numbers, t->used, &t->room, sizeof x))
            return gs_fail(GS_E_MEMORY, "%s: no memory for %zu numbers", t->path, t->used);
        t->numbers[t->used++] = x;
    }
    if (t->column == t->columns) return GS_OK;
    return wrong(t, "the line %s here; wanted %d columns, as in the first line",
                 t->column < t->columns ? "ends" : "goes on", t->columns);
}

/* ---- the set ---- */

/* Take the rows of a split: every `each`-th row is for testing, all others for training. each 0: take all rows. */
static gs_status take_rows(const table *t, gs_split split, size_t each, gs_dataset *d) {
    const size_t columns = (size_t)t->columns, rows = t->rows, tests = each ? rows / each : 0,
                 outputs = t->targets > 0 ? (size_t)t->targets : 1, inputs = columns - outputs;
    d->count = each && split == GS_TEST ? tests : rows - tests;
    if (!t->numbers || d->count == 0 || d->count > UINT32_MAX)
        return gs_fail(GS_E_FORMAT, "%s has %zu samples %s; wanted 1 to %u", t->path, d->count,
                       split == GS_TEST ? "to test" : "to train on", UINT32_MAX);
    d->shape = (gs_shape){(int)inputs, 1, 1, 0};
    d->outputs = t->targets;
    GS_TRY(GS_NEW(d->inputs, d->count * inputs, "%zu samples of %s", d->count, t->path));
    if (t->targets) GS_TRY(GS_NEW(d->targets, d->count * outputs, "%zu samples of %s", d->count, t->path));
    if (!t->targets) GS_TRY(GS_NEW(d->labels, d->count, "%zu samples of %s", d->count, t->path));
    for (size_t r = 0, i = 0; r < rows; r++) {
        const float *row = t->numbers + r * columns;
        if (each && (r % each == each - 1) != (split == GS_TEST)) continue;
        memcpy(d->inputs + i * inputs, row, inputs * sizeof *row);
        if (d->targets) memcpy(d->targets + i * outputs, row + inputs, outputs * sizeof *row);
        if (d->labels) d->labels[i] = (unsigned char)row[inputs];
        if (d->labels && d->labels[i] >= d->classes) d->classes = d->labels[i] + 1;
        i++;
    }
    return GS_OK;
}

gs_status gs_csv_set_load(const char *where, gs_split split, gs_labels fine, gs_dataset *d) {
    char path[PATH_SIZE], *text;
    size_t bytes;
    (void)fine; /* a sample has one label */
    if (!path_of(where, split, path)) return gs_fail(GS_E_FILE, "%s has no %s", where, file_names[split]);
    GS_TRY(gs_file_read(path, FILE_MOST, &text, &bytes));
    gs_status status = gs_foreign_check_text(path, text, bytes);
    table t = {.path = path, .next = text, .end = text + bytes};
    if (bytes >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
        t.next += 3; /* UTF-8's byte order mark, from spreadsheets */
    if (status == GS_OK) status = read_header(&t);
    for (; status == GS_OK && next_line(&t); t.rows++) status = read_row(&t);
    if (status == GS_OK) status = take_rows(&t, split, is_one_file(where) ? TEST_EACH : 0, d);
    free(t.numbers);
    free(text);
    return status;
}
