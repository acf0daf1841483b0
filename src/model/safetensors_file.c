#include "model/safetensors_file.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/text.h"
#include "io/file.h"
#include "io/json.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the file holds numbers as they lie in memory");

enum { LENGTH_BYTES = 8, MAX_HEADER = 100000000 }; /* the format's own limit: 100 MB */

void gs_tensor_file_close(gs_tensor_file *f) {
    if (f->file) fclose(f->file);
    cJSON_Delete(f->header);
    free(f->tensors);
}

gs_status gs_tensor_file_read(gs_tensor_file *f, void *data, size_t bytes) {
    errno = 0;
    if (fread(data, 1, bytes, f->file) == bytes) return GS_OK;
    return gs_fail(GS_E_FILE, "cannot read %s: %s", f->path,
                   errno ? strerror(errno) : "it shrank while it was read");
}

static gs_status parse(gs_tensor_file *f, const char *text, size_t length) {
    const char *end = text;
    f->header = gs_json_parse(text, length, &end);
    size_t at = (size_t)(end - text);
    if (f->header)
        while (at < length && text[at] == ' ') at++;
    if (!f->header || at < length)
        return gs_fail(GS_E_FORMAT, "%s: the header is not valid JSON: wrong at byte %zu of %zu", f->path, at,
                       length);
    if (!cJSON_IsObject(f->header))
        return gs_fail(GS_E_FORMAT, "%s: the header is not a JSON object", f->path);
    return GS_OK;
}

static gs_status read_header(gs_tensor_file *f, uint64_t size) {
    uint64_t length;
    if (size < LENGTH_BYTES)
        return gs_fail(GS_E_FORMAT, "%s is truncated: it has %" PRIu64 " bytes; wanted at least %d", f->path,
                       size, LENGTH_BYTES);
    GS_TRY(gs_tensor_file_read(f, &length, sizeof length));
    if (length > MAX_HEADER)
        return gs_fail(GS_E_FORMAT,
                       "%s is not a safetensors file: the header's length is %" PRIu64
                       "; at most %d is allowed",
                       f->path, length, MAX_HEADER);
    if (length > size - LENGTH_BYTES)
        return gs_fail(GS_E_FORMAT,
                       "%s is truncated: the header's length is %" PRIu64 ", but only %" PRIu64
                       " bytes follow",
                       f->path, length, size - LENGTH_BYTES);
    f->data_at = LENGTH_BYTES + length;
    f->data_bytes = size - f->data_at;

    char *text = malloc(length + 1);
    if (!text)
        return gs_fail(GS_E_MEMORY, "%s: no memory for a header of %" PRIu64 " bytes", f->path, length);
    gs_status st = gs_tensor_file_read(f, text, length);
    if (st == GS_OK) st = parse(f, text, length);
    free(text);
    return st;
}

/* A whole number from 0 to 2^53, up to which a JSON number (a double) is exact. */
static bool is_size(const cJSON *item) {
    double v = cJSON_IsNumber(item) ? item->valuedouble : -1;
    return v >= 0 && v <= 9007199254740992.0 && v == (double)(uint64_t)v;
}

const char *gs_tensor_shape(const cJSON *shape, char *text, size_t size) {
    const cJSON *dim;
    size_t used = 1;
    strcpy(text, "(");
    cJSON_ArrayForEach(dim, shape) {
        int n = snprintf(text + used, size - used, "%s%.0f", used > 1 ? "," : "", dim->valuedouble);
        if (used + (size_t)n + 2 > size) break; /* many more than any model has */
        used += (size_t)n;
    }
    strcpy(text + used, ")");
    return text;
}

static gs_tensor_type find_type(const char *name) {
    static const char *const names[] = {
        [GS_TENSOR_F32] = "F32", [GS_TENSOR_F16] = "F16", [GS_TENSOR_BF16] = "BF16"};
    for (int i = 0; i < 3; i++)
        if (strcmp(name, names[i]) == 0) return (gs_tensor_type)i;
    return GS_TENSOR_OTHER;
}

static gs_status read_tensor(const gs_tensor_file *f, const cJSON *item, gs_tensor *t) {
    const cJSON *dtype = cJSON_GetObjectItemCaseSensitive(item, "dtype");
    const cJSON *shape = cJSON_GetObjectItemCaseSensitive(item, "shape");
    const cJSON *offsets = cJSON_GetObjectItemCaseSensitive(item, "data_offsets");
    const cJSON *begin = cJSON_GetArrayItem(offsets, 0), *end = cJSON_GetArrayItem(offsets, 1), *dim;
    const char *name = gs_printable(item->string);
    bool whole = cJSON_IsString(dtype) && cJSON_IsArray(shape) && cJSON_IsArray(offsets) &&
                 cJSON_GetArraySize(offsets) == 2 && is_size(begin) && is_size(end);
    double bytes = 1;
    cJSON_ArrayForEach(dim, shape) {
        whole = whole && is_size(dim);
        bytes *= dim->valuedouble;
    }
    if (!whole)
        return gs_fail(GS_E_FORMAT, "%s: '%s' has no proper dtype, shape and data_offsets", f->path, name);
    *t = (gs_tensor){.name = item->string,
                     .shape = shape,
                     .type = find_type(dtype->valuestring),
                     .dtype = dtype->valuestring,
                     .begin = (uint64_t)begin->valuedouble,
                     .end = (uint64_t)end->valuedouble};
    bytes *= t->type == GS_TENSOR_F32 ? 4 : 2;
    if (t->begin > t->end || t->end > f->data_bytes)
        return gs_fail(GS_E_FORMAT,
                       "%s is truncated or damaged: %s lies at bytes %" PRIu64 " to %" PRIu64
                       " of the data, which has %" PRIu64,
                       f->path, name, t->begin, t->end, f->data_bytes);
    if (t->type != GS_TENSOR_OTHER && bytes != (double)(t->end - t->begin)) {
        char text[200];
        return gs_fail(GS_E_FORMAT, "%s: %s is %s, %.0f bytes, but has %" PRIu64 " bytes of data", f->path,
                       name, gs_tensor_shape(shape, text, sizeof text), bytes, t->end - t->begin);
    }
    return GS_OK;
}

static int by_place(const void *a, const void *b) {
    const gs_tensor *s = a, *t = b;
    if (s->begin != t->begin) return s->begin < t->begin ? -1 : 1;
    return (s->end > t->end) - (s->end < t->end);
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const gs_tensor *)a)->name, ((const gs_tensor *)b)->name);
}

/* Every tensor on its own, then all together: they fill the data without overlap or gap, as the format
 * demands. */
static gs_status read_tensors(gs_tensor_file *f) {
    f->tensors = calloc((size_t)cJSON_GetArraySize(f->header) + 1, sizeof *f->tensors);
    if (!f->tensors) return gs_fail(GS_E_MEMORY, "%s: no memory for the list of tensors", f->path);
    const cJSON *item;
    cJSON_ArrayForEach(item, f->header) {
        if (strcmp(item->string, "__metadata__") == 0)
            f->metadata = item;
        else
            GS_TRY(read_tensor(f, item, &f->tensors[f->count++]));
    }

    qsort(f->tensors, f->count, sizeof *f->tensors, by_name);
    for (size_t i = 1; i < f->count; i++)
        if (by_name(&f->tensors[i - 1], &f->tensors[i]) == 0)
            return gs_fail(GS_E_FORMAT, "%s: %s appears twice", f->path, gs_printable(f->tensors[i].name));

    qsort(f->tensors, f->count, sizeof *f->tensors, by_place);
    uint64_t at = 0;
    for (size_t i = 0; i < f->count; i++) {
        const gs_tensor *t = &f->tensors[i];
        if (t->begin != at)
            return gs_fail(GS_E_FORMAT,
                           "%s: %s begins at byte %" PRIu64
                           " of the data, but the tensor before it ends at %" PRIu64,
                           f->path, gs_printable(t->name), t->begin, at);
        at = t->end;
    }
    if (at != f->data_bytes)
        return gs_fail(GS_E_FORMAT, "%s: the tensors end at byte %" PRIu64 " of the data, which has %" PRIu64,
                       f->path, at, f->data_bytes);
    return GS_OK;
}

static bool is_beside(const gs_tensor *t) {
    return strncmp(t->name, GS_BESIDE_PREFIX, strlen(GS_BESIDE_PREFIX)) == 0;
}

static int weights_first(const void *a, const void *b) {
    const bool s = is_beside(a), t = is_beside(b);
    return s != t ? s - t : by_place(a, b);
}

/* A run's state lies beside the weights only where the metadata says so: a model may have a layer of that name. */
static void set_aside(gs_tensor_file *f) {
    const size_t all = f->count;
    if (!cJSON_IsString(cJSON_GetObjectItemCaseSensitive(f->metadata, GS_STATE_KEY))) return;
    qsort(f->tensors, all, sizeof *f->tensors, weights_first);
    while (f->count > 0 && is_beside(&f->tensors[f->count - 1])) f->count--;
    f->beside = f->tensors + f->count;
    f->besides = all - f->count;
}

gs_status gs_tensor_file_open(const char *path, gs_tensor_file *f) {
    static const char wanted[] = "a safetensors file (in Python: safetensors.torch.save_model)";
    uint64_t size;
    *f = (gs_tensor_file){.path = path};
    GS_TRY(gs_file_open_stream(path, &f->file, &size));
    GS_TRY(gs_foreign_explain(read_header(f, size), path, wanted));
    GS_TRY(read_tensors(f));
    set_aside(f);
    return GS_OK;
}
