#include "io/npy.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "core/text.h"
#include "io/file.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the file holds floats as they lie in memory");

enum { MAGIC = 6, START = 12 /* bytes before the text, but 10 in version 1.0 */, MOST_TEXT = 1 << 20 };

/* A file being read. */
typedef struct reader {
    const char *path;
    FILE *file;
    uint64_t file_bytes, data_at;
    bool fortran;
    gs_npy *out;
} reader;

gs_npy_text gs_npy_describe(const gs_npy *a) {
    gs_npy_text t = {""};
    gs_append(t.text, sizeof t.text, "%s%d (",
              a->kind == 'f'   ? "float"
              : a->kind == 'u' ? "uint"
                               : "int",
              8 * a->bytes);
    for (int i = 0; i < a->sizes; i++) gs_append(t.text, sizeof t.text, "%s%zu", i ? "," : "", a->size[i]);
    gs_append(t.text, sizeof t.text, ")");
    return t;
}

/* ---- the header text: a Python dictionary with sorted keys ---- */

static gs_status damaged(const reader *r, const char *at) {
    char rest[24];
    snprintf(rest, sizeof rest, "%s", at);
    return gs_fail(
        GS_E_FORMAT,
        "%s: its header is damaged at '%s'; wanted {'descr': TYPE, 'fortran_order': False, 'shape': SIZES}",
        r->path, gs_printable(rest));
}

/* Read a type such as "<f4": byte order, kind of number, bytes. */
static gs_status read_type(reader *r, const char *type) {
    const char order = type[0], kind = order ? type[1] : '\0', *digits = kind ? type + 2 : "";
    const bool number = strchr("uif", kind) && kind && strlen(digits) == 1 && strchr("1248", *digits);
    if (kind == 'O')
        return gs_fail(GS_E_FORMAT, "%s: the elements are Python objects; wanted numbers", r->path);
    if (!number || !strchr("<>|=", order) || (kind == 'f' && *digits == '1'))
        return gs_fail(GS_E_FORMAT,
                       "%s: the elements are of type '%s'; wanted whole or floating-point numbers of 1 to 8 "
                       "bytes, such as '|u1' or '<f4'",
                       r->path, gs_printable(type));
    if (order == '>' && *digits != '1')
        return gs_fail(GS_E_FORMAT, "%s: the elements are big-endian, '%s'; wanted little-endian, '<%s'",
                       r->path, type, type + 1);
    r->out->kind = kind;
    r->out->bytes = *digits - '0';
    return GS_OK;
}

/* Read a shape such as "60000, 28, 28), }". A number that is too large becomes the largest one: no file is so long. */
static gs_status read_shape(reader *r, const char *at) {
    gs_npy *a = r->out;
    int length = 0;
    for (char *end; *at >= '0' && *at <= '9'; at += *at == ',' ? 1 + strspn(at + 1, " ") : 0) {
        if (a->sizes == GS_NPY_SIZES)
            return gs_fail(GS_E_FORMAT, "%s: the array has more than %d sizes", r->path, GS_NPY_SIZES);
        a->size[a->sizes++] = strtoull(at, &end, 10);
        at = end + strspn(end, " ");
        if (*at != ',' && *at != ')') return damaged(r, end);
    }
    sscanf(at, ") , } %n", &length);
    if (length == 0) sscanf(at, ") } %n", &length);
    return length > 0 && !at[length] ? GS_OK : damaged(r, at + length);
}

static gs_status read_dictionary(reader *r, const char *text) {
    char type[24], order[8];
    int length = 0;
    sscanf(text, " { 'descr' : [%n", &length);
    if (length > 0)
        return gs_fail(GS_E_FORMAT, "%s: the elements are records; wanted plain numbers", r->path);
    sscanf(text, " { 'descr' : '%23[^']' , 'fortran_order' : %7[A-Za-z] , 'shape' : ( %n", type, order,
           &length);
    r->fortran = length > 0 && strcmp(order, "True") == 0;
    if (length == 0 || (!r->fortran && strcmp(order, "False") != 0)) return damaged(r, text);
    GS_TRY(read_type(r, type));
    return read_shape(r, text + length);
}

/* ---- the file ---- */

static gs_status read_bytes(reader *r, void *to, size_t bytes) {
    if (fread(to, 1, bytes, r->file) == bytes) return GS_OK;
    return gs_fail(GS_E_FILE, "cannot read %s: it has become shorter", r->path);
}

static gs_status too_short(const reader *r, uint64_t wanted, const char *what) {
    return gs_fail(GS_E_FORMAT, "%s is truncated: it has %" PRIu64 " bytes; wanted %" PRIu64 " (%s)", r->path,
                   r->file_bytes, wanted, what);
}

/* *bytes = the length of the header text. */
static gs_status read_start(reader *r, size_t *bytes) {
    unsigned char start[START] = {0};
    if (r->file_bytes == 0) return gs_fail(GS_E_FORMAT, "%s is empty: 0 bytes", r->path);
    if (r->file_bytes < START) return too_short(r, START, "the header alone");
    GS_TRY(read_bytes(r, start, START));
    if (memcmp(start, "\x93NUMPY", MAGIC) != 0)
        return gs_fail(GS_E_FORMAT,
                       "%s: the first bytes are %02x %02x %02x %02x %02x %02x; wanted 93 4e 55 4d 50 59, as "
                       "of each .npy file",
                       r->path, start[0], start[1], start[2], start[3], start[4], start[5]);
    if (start[6] < 1 || start[6] > 3 || start[7] != 0)
        return gs_fail(GS_E_FORMAT, "%s: it is of version %d.%d of the format; wanted 1.0, 2.0 or 3.0",
                       r->path, start[6], start[7]);
    const bool first = start[6] == 1;
    *bytes = start[8] | (size_t)start[9] << 8;
    if (!first) *bytes |= (size_t)start[10] << 16 | (size_t)start[11] << 24;
    r->data_at = (first ? START - 2 : START) + (uint64_t)*bytes;
    if (first && fseek(r->file, START - 2, SEEK_SET) != 0)
        return gs_fail(GS_E_FILE, "cannot read %s: it cannot be read twice", r->path);
    if (*bytes > MOST_TEXT)
        return gs_fail(GS_E_FORMAT, "%s: its header has %zu bytes; at most %d are allowed", r->path, *bytes,
                       MOST_TEXT);
    return r->data_at <= r->file_bytes ? GS_OK : too_short(r, r->data_at, "the header alone");
}

static gs_status read_header(reader *r) {
    size_t bytes = 0;
    GS_TRY(read_start(r, &bytes));
    char *text;
    GS_TRY(GS_NEW(text, bytes, "%zu bytes of %s", bytes, r->path));
    gs_status status = read_bytes(r, text, bytes);
    if (status == GS_OK && strlen(text) != bytes) status = damaged(r, text + strlen(text));
    if (status == GS_OK) status = read_dictionary(r, text);
    free(text);
    return status;
}

/* The bytes of all elements, checked for overflow. A file too short for them fails before memory is allocated. */
static gs_status check_sizes(const reader *r, size_t *bytes) {
    gs_npy *a = r->out;
    const gs_npy_text text = gs_npy_describe(a);
    bool absurd = false, empty = false;
    a->count = 1;
    for (int i = 0; i < a->sizes; i++) {
        empty = empty || a->size[i] == 0;
        absurd = absurd || __builtin_mul_overflow(a->count, a->size[i], &a->count);
    }
    absurd = absurd || __builtin_mul_overflow(a->count, (size_t)a->bytes, bytes) || *bytes > INT64_MAX / 2;
    if (r->fortran && a->sizes > 1)
        return gs_fail(GS_E_FORMAT, "%s: %s is in Fortran order; wanted C order (numpy.ascontiguousarray)",
                       r->path, text.text);
    if (empty) return gs_fail(GS_E_FORMAT, "%s: it is %s; no size may be 0", r->path, text.text);
    if (absurd)
        return gs_fail(GS_E_FORMAT, "%s: it is %s: more bytes than a file can have", r->path, text.text);
    const uint64_t wanted = r->data_at + *bytes;
    if (r->file_bytes < wanted) return too_short(r, wanted, text.text);
    if (r->file_bytes == wanted) return GS_OK;
    return gs_fail(GS_E_FORMAT, "%s has %" PRIu64 " bytes; wanted %" PRIu64 ", as its header states (%s)",
                   r->path, r->file_bytes, wanted, text.text);
}

static gs_status read_array(reader *r) {
    size_t bytes = 0;
    GS_TRY(read_header(r));
    GS_TRY(check_sizes(r, &bytes));
    r->out->data = malloc(bytes + 1);
    if (!r->out->data) return gs_fail(GS_E_MEMORY, "%s: no memory for %zu bytes", r->path, bytes);
    return read_bytes(r, r->out->data, bytes);
}

gs_status gs_npy_load(const char *path, gs_npy *out) {
    reader r = {.path = path, .out = out};
    *out = (gs_npy){0};
    GS_TRY(gs_file_open_stream(path, &r.file, &r.file_bytes));
    gs_status status = gs_foreign_explain(read_array(&r), path, "one array, as numpy.save writes it");
    fclose(r.file);
    if (status != GS_OK) {
        free(out->data);
        *out = (gs_npy){0};
    }
    return status;
}

/* ---- save ---- */

gs_status gs_npy_save(const char *path, const float *data, size_t rows, size_t columns) {
    /* Magic (6 bytes), version (2), length of the text (2), text; spaces and a newline pad to a multiple of 64. */
    enum { TEXT_AT = 10, HEADER = 128 };
    char header[HEADER + 1] = "\x93NUMPY\x01\x00";
    header[8] = HEADER - TEXT_AT;
    header[9] = 0;
    snprintf(header + TEXT_AT, HEADER - TEXT_AT,
             "{'descr': '<f4', 'fortran_order': False, 'shape': (%zu, %zu), }", rows, columns);
    size_t used = TEXT_AT + strlen(header + TEXT_AT);
    memset(header + used, ' ', HEADER - used);
    header[HEADER - 1] = '\n';

    gs_file_writer w;
    GS_TRY(gs_file_writer_open(path, &w));
    fwrite(header, 1, HEADER, w.file);
    fwrite(data, sizeof *data, rows * columns, w.file);
    return gs_file_writer_commit(&w);
}
