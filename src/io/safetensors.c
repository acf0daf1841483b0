#include "io/safetensors.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "gradsum.h" /* its version */
#include "io/file.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the file holds numbers as they lie in memory");

enum { LENGTH_BYTES = 8, MAX_HEADER = 100000000 }; /* the format's own limit: 100 MB */

/* ---- save ---- */

/* The header's text, with spaces at its end so that the data begins at a multiple of 8; NULL: out of memory. */
static char *header_text(const gs_model *model) {
    char input[64], mean[32], std[32], *text = NULL;
    snprintf(input, sizeof input, "%dx%dx%d", model->in.c, model->in.h, model->in.w);
    snprintf(mean, sizeof mean, "%.9g",
             (double)model->scaling.mean); /* nine digits give the same float back */
    snprintf(std, sizeof std, "%.9g", (double)model->scaling.std);
    cJSON *header = cJSON_CreateObject();
    cJSON *metadata = cJSON_AddObjectToObject(header, "__metadata__");
    bool ok = cJSON_AddStringToObject(metadata, "format", "pt") &&
              cJSON_AddStringToObject(metadata, "input", input) &&
              cJSON_AddStringToObject(metadata, "mean", mean) &&
              cJSON_AddStringToObject(metadata, "std", std) &&
              cJSON_AddStringToObject(metadata, "model", model->text) &&
              cJSON_AddStringToObject(metadata, "gradsum", GRADSUM_VERSION);

    double begin = 0;
    for (int i = 0; ok && i < model->param_count; i++) {
        const gs_param *p = model->param[i];
        double end = begin + 4.0 * (double)p->count;
        cJSON *tensor = cJSON_AddObjectToObject(header, p->name);
        ok =
            cJSON_AddStringToObject(tensor, "dtype", "F32") &&
            cJSON_AddItemToObject(tensor, "shape", cJSON_CreateIntArray(p->dims, p->ndim)) &&
            cJSON_AddItemToObject(tensor, "data_offsets", cJSON_CreateDoubleArray((double[]){begin, end}, 2));
        begin = end;
    }
    if (ok) text = cJSON_PrintUnformatted(header);
    cJSON_Delete(header);
    if (!text) return NULL;

    size_t length = strlen(text), padded = (length + 7) / 8 * 8;
    char *all = realloc(text, padded + 1);
    if (!all) {
        free(text);
        return NULL;
    }
    memset(all + length, ' ', padded - length);
    all[padded] = '\0';
    return all;
}

static bool write_all(FILE *f, const gs_model *model, const char *header, const float *host) {
    uint64_t length = strlen(header);
    if (fwrite(&length, sizeof length, 1, f) != 1 || fwrite(header, 1, length, f) != length) return false;
    for (int i = 0; i < model->param_count; i++) {
        const gs_param *p = model->param[i];
        if (fwrite(host + p->at, sizeof *host, p->count, f) != p->count) return false;
    }
    return true;
}

gs_status gs_safetensors_save(const char *path, const gs_model *model, const float *host) {
    char *header = header_text(model);
    if (!header) return gs_fail(GS_E_MEMORY, "cannot write %s: %s", path, strerror(ENOMEM));
    gs_file_writer w;
    gs_status st = gs_file_writer_open(path, &w);
    if (st == GS_OK && !write_all(w.file, model, header, host))
        st = gs_fail(GS_E_FILE, "cannot write %s: %s", path, strerror(errno));
    if (st == GS_OK)
        st = gs_file_writer_commit(&w);
    else
        gs_file_writer_discard(&w);
    free(header);
    return st;
}

/* ---- load ---- */

/* A tensor as the header describes it, checked against the file's size but not yet against a model. */
typedef struct tensor {
    const char *name;
    const cJSON *shape;
    uint64_t begin, end; /* bytes from the start of the data */
} tensor;

typedef struct tensor_file {
    const char *path;
    FILE *file;
    uint64_t data_at, data_bytes;
    cJSON *header;
    const cJSON *metadata;
    tensor *tensors; /* in the order of their data */
    size_t count;
} tensor_file;

static void close_file(tensor_file *f) {
    if (f->file) fclose(f->file);
    cJSON_Delete(f->header);
    free(f->tensors);
}

static gs_status read_bytes(tensor_file *f, void *data, size_t bytes) {
    errno = 0;
    if (fread(data, 1, bytes, f->file) == bytes) return GS_OK;
    return gs_fail(GS_E_FILE, "cannot read %s: %s", f->path,
                   errno ? strerror(errno) : "it became shorter meanwhile");
}

static gs_status parse(tensor_file *f, const char *text, size_t length) {
    /* cJSON keeps the place of its last error in a variable that all threads share. */
    static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;
    const char *end = text;
    pthread_mutex_lock(&one_at_a_time);
    f->header = cJSON_ParseWithLengthOpts(text, length, &end, false);
    pthread_mutex_unlock(&one_at_a_time);

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

static gs_status read_header(tensor_file *f) {
    struct stat s;
    if (fstat(fileno(f->file), &s) != 0)
        return gs_fail(GS_E_FILE, "cannot read %s: %s", f->path, strerror(errno));
    if (!S_ISREG(s.st_mode))
        return gs_fail(GS_E_FILE, "cannot read %s: %s", f->path,
                       S_ISDIR(s.st_mode) ? strerror(EISDIR) : "it is not a regular file");
    uint64_t size = (uint64_t)s.st_size, length;
    if (size < LENGTH_BYTES)
        return gs_fail(GS_E_FORMAT, "%s is truncated: it has %" PRIu64 " bytes, at least %d are wanted",
                       f->path, size, LENGTH_BYTES);
    GS_TRY(read_bytes(f, &length, sizeof length));
    if (length > MAX_HEADER)
        return gs_fail(GS_E_FORMAT,
                       "%s: the header's length is %" PRIu64
                       ", at most %d is allowed: not a safetensors file?",
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
    gs_status st = read_bytes(f, text, length);
    if (st == GS_OK) st = parse(f, text, length);
    free(text);
    return st;
}

/* A whole number from 0 to 2^53, up to which a JSON number (a double) is exact. */
static bool is_size(const cJSON *item) {
    double v = cJSON_IsNumber(item) ? item->valuedouble : -1;
    return v >= 0 && v <= 9007199254740992.0 && v == (double)(uint64_t)v;
}

/* "(32,1,3,3)" */
static const char *shape_text(const cJSON *shape, char *text, size_t size) {
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

static gs_status read_tensor(const tensor_file *f, const cJSON *item, tensor *t) {
    const cJSON *dtype = cJSON_GetObjectItemCaseSensitive(item, "dtype");
    const cJSON *shape = cJSON_GetObjectItemCaseSensitive(item, "shape");
    const cJSON *offsets = cJSON_GetObjectItemCaseSensitive(item, "data_offsets");
    const cJSON *begin = cJSON_GetArrayItem(offsets, 0), *end = cJSON_GetArrayItem(offsets, 1), *dim;
    const char *name = item->string;
    bool whole = cJSON_IsString(dtype) && cJSON_IsArray(shape) && cJSON_IsArray(offsets) &&
                 cJSON_GetArraySize(offsets) == 2 && is_size(begin) && is_size(end);
    double bytes = sizeof(float);
    cJSON_ArrayForEach(dim, shape) {
        whole = whole && is_size(dim);
        bytes *= dim->valuedouble;
    }
    if (!whole)
        return gs_fail(GS_E_FORMAT, "%s: '%.80s' has no proper dtype, shape and data_offsets", f->path, name);
    if (strcmp(dtype->valuestring, "F32") != 0)
        return gs_fail(GS_E_FORMAT, "%s: %.80s is %.20s, F32 is wanted", f->path, name, dtype->valuestring);

    *t = (tensor){name, shape, (uint64_t)begin->valuedouble, (uint64_t)end->valuedouble};
    if (t->begin > t->end || t->end > f->data_bytes)
        return gs_fail(GS_E_FORMAT,
                       "%s is truncated or damaged: %.80s lies at bytes %" PRIu64 " to %" PRIu64
                       " of the data, which has %" PRIu64,
                       f->path, name, t->begin, t->end, f->data_bytes);
    if (bytes != (double)(t->end - t->begin)) {
        char text[200];
        return gs_fail(GS_E_FORMAT, "%s: %.80s is %s, %.0f bytes, but has %" PRIu64 " bytes of data", f->path,
                       name, shape_text(shape, text, sizeof text), bytes, t->end - t->begin);
    }
    return GS_OK;
}

static int by_place(const void *a, const void *b) {
    const tensor *s = a, *t = b;
    if (s->begin != t->begin) return s->begin < t->begin ? -1 : 1;
    return (s->end > t->end) - (s->end < t->end);
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const tensor *)a)->name, ((const tensor *)b)->name);
}

/* Every tensor by itself, then all together: they fill the data without overlap or gap, as the format
 * demands. */
static gs_status read_tensors(tensor_file *f) {
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
            return gs_fail(GS_E_FORMAT, "%s: %.80s is there twice", f->path, f->tensors[i].name);

    qsort(f->tensors, f->count, sizeof *f->tensors, by_place);
    uint64_t at = 0;
    for (size_t i = 0; i < f->count; i++) {
        const tensor *t = &f->tensors[i];
        if (t->begin != at)
            return gs_fail(GS_E_FORMAT,
                           "%s: %.80s begins at byte %" PRIu64
                           " of the data, the tensor before it ends at %" PRIu64,
                           f->path, t->name, t->begin, at);
        at = t->end;
    }
    if (at != f->data_bytes)
        return gs_fail(GS_E_FORMAT, "%s: the tensors end at byte %" PRIu64 " of the data, which has %" PRIu64,
                       f->path, at, f->data_bytes);
    return GS_OK;
}

/* Close the file also after a failure. */
static gs_status open_file(const char *path, tensor_file *f) {
    *f = (tensor_file){.path = path, .file = fopen(path, "rbe")};
    if (!f->file) return gs_fail(GS_E_FILE, "cannot read %s: %s", path, strerror(errno));
    GS_TRY(read_header(f));
    return read_tensors(f);
}

/* "1x28x28" -> (1, 28, 28) */
static bool parse_input(const char *text, gs_shape *in) {
    long size[3];
    for (int i = 0; i < 3; i++) {
        char *end;
        if (*text < '0' || *text > '9') return false;
        size[i] = strtol(text, &end, 10);
        if (size[i] < 1 || size[i] > INT_MAX || *end != (i < 2 ? 'x' : '\0')) return false;
        text = end + 1;
    }
    *in = (gs_shape){(int)size[0], (int)size[1], (int)size[2]};
    return true;
}

/* A finite number in the metadata, which holds only strings; `otherwise` if there is none. */
static gs_status read_number(const tensor_file *f, const char *name, float otherwise, float *out) {
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(f->metadata, name);
    *out = otherwise;
    if (!item) return GS_OK;
    char *end = NULL;
    if (cJSON_IsString(item)) *out = strtof(item->valuestring, &end);
    if (!end || end == item->valuestring || *end || !isfinite(*out))
        return gs_fail(GS_E_FORMAT, "%s: '%s' in the metadata is '%.80s', a number is wanted", f->path, name,
                       cJSON_IsString(item) ? item->valuestring : "");
    return GS_OK;
}

static gs_status read_model(const tensor_file *f, char **text, gs_shape *in, gs_scaling *scaling) {
    GS_TRY(read_number(f, "mean", 0, &scaling->mean));
    GS_TRY(read_number(f, "std", 1, &scaling->std));
    if (!(scaling->std > 0))
        return gs_fail(GS_E_FORMAT, "%s: 'std' in the metadata is %g, more than 0 is wanted", f->path,
                       (double)scaling->std);
    if (!text) return GS_OK;
    const cJSON *model = cJSON_GetObjectItemCaseSensitive(f->metadata, "model");
    const cJSON *input = cJSON_GetObjectItemCaseSensitive(f->metadata, "input");
    if (!cJSON_IsString(model))
        return gs_fail(GS_E_FORMAT, "%s: no 'model' in the metadata: gradsum did not save this file",
                       f->path);
    if (!cJSON_IsString(input) || !parse_input(input->valuestring, in))
        return gs_fail(GS_E_FORMAT,
                       "%s: 'input' in the metadata is '%.80s', something like 1x28x28 is wanted", f->path,
                       cJSON_IsString(input) ? input->valuestring : "");
    *text = strdup(model->valuestring);
    return *text ? GS_OK : gs_fail(GS_E_MEMORY, "%s: no memory for the model's text", f->path);
}

gs_status gs_safetensors_model(const char *path, char **text, gs_shape *in, gs_scaling *scaling) {
    tensor_file f;
    if (text) *text = NULL;
    gs_status st = open_file(path, &f);
    if (st == GS_OK) st = read_model(&f, text, in, scaling);
    close_file(&f);
    return st;
}

static const tensor *find_tensor(const tensor_file *f, const char *name) {
    for (size_t i = 0; i < f->count; i++)
        if (strcmp(f->tensors[i].name, name) == 0) return &f->tensors[i];
    return NULL;
}

static const gs_param *find_param(const gs_model *model, const char *name) {
    for (int i = 0; i < model->param_count; i++)
        if (strcmp(model->param[i]->name, name) == 0) return model->param[i];
    return NULL;
}

/* The file's tensors are exactly the model's. */
static gs_status check_model(const tensor_file *f, const gs_model *model) {
    char found[200], wanted[200];
    for (int i = 0; i < model->param_count; i++) {
        const gs_param *p = model->param[i];
        const tensor *t = find_tensor(f, p->name);
        size_t used = 0;
        for (int d = 0; d < p->ndim; d++)
            used += (size_t)snprintf(wanted + used, sizeof wanted - used, "%s%d", d ? "," : "(", p->dims[d]);
        strcpy(wanted + used, ")");
        if (!t)
            return gs_fail(GS_E_SHAPE, "%s is missing in %s, the model wants %s", p->name, f->path, wanted);
        if (strcmp(shape_text(t->shape, found, sizeof found), wanted) != 0)
            return gs_fail(GS_E_SHAPE, "%s is %s in %s, the model wants %s", p->name, found, f->path, wanted);
    }
    for (size_t i = 0; i < f->count; i++) {
        const tensor *t = &f->tensors[i];
        if (!find_param(model, t->name))
            return gs_fail(GS_E_SHAPE, "%.80s %s is in %s, but the model has no such parameter", t->name,
                           shape_text(t->shape, found, sizeof found), f->path);
    }
    return GS_OK;
}

gs_status gs_safetensors_load(const char *path, const gs_model *model, float *host) {
    tensor_file f;
    gs_status st = open_file(path, &f);
    if (st == GS_OK) st = check_model(&f, model);
    for (int i = 0; st == GS_OK && i < model->param_count; i++) {
        const gs_param *p = model->param[i];
        if (fseeko(f.file, (off_t)(f.data_at + find_tensor(&f, p->name)->begin), SEEK_SET) != 0)
            st = gs_fail(GS_E_FILE, "cannot read %s: %s", path, strerror(errno));
        else
            st = read_bytes(&f, host + p->at, p->count * sizeof *host);
    }
    close_file(&f);
    return st;
}
