#include "model/safetensors.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "core/version.h"
#include "core/text.h"
#include "io/file.h"
#include "model/names.h"
#include "model/safetensors_file.h"
#include "sync/wire.h" /* the conversions */

/* ---- save ---- */

/* "0.1" or "0.1,0.2,0.3"; nine digits give the same float back. */
static void print_numbers(const gs_by_channel *x, char *text, size_t size) {
    *text = '\0';
    for (int c = 0; c < x->count; c++) gs_append(text, size, "%s%.9g", c ? "," : "", (double)x->of[c]);
}

/* The header's text, with spaces at its end so that the data begins at a multiple of 8; NULL: out of memory. */
static char *header_text(const gs_model *model) {
    char mean[GS_BY_CHANNEL_TEXT], std[GS_BY_CHANNEL_TEXT], *text = NULL, *padded = NULL;
    print_numbers(&model->scaling.mean, mean, sizeof mean);
    print_numbers(&model->scaling.std, std, sizeof std);
    cJSON *header = cJSON_CreateObject();
    cJSON *metadata = cJSON_AddObjectToObject(header, "__metadata__");
    bool ok = cJSON_AddStringToObject(metadata, "format", "pt") &&
              cJSON_AddStringToObject(metadata, "input", gs_shape_product(model->in).text) &&
              cJSON_AddStringToObject(metadata, "mean", mean) &&
              cJSON_AddStringToObject(metadata, "std", std) &&
              cJSON_AddStringToObject(metadata, "model", model->text) &&
              cJSON_AddStringToObject(metadata, "gradsum", GRADSUM_VERSION);

    double begin = 0;
    for (int i = 0; ok && i < model->saved_count; i++) {
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

    const int spaces = (int)(-strlen(text) % 8);
    if (asprintf(&padded, "%s%*s", text, spaces, "") < 0) padded = NULL;
    free(text);
    return padded;
}

static bool write_all(FILE *f, const gs_model *model, const char *header, const float *host) {
    uint64_t length = strlen(header);
    if (fwrite(&length, sizeof length, 1, f) != 1 || fwrite(header, 1, length, f) != length) return false;
    for (int i = 0; i < model->saved_count; i++) {
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

/* ---- what the metadata says ---- */

static const char *text_of(const cJSON *item) {
    return cJSON_IsString(item) ? item->valuestring : "";
}

/* A number in the metadata, or one for each channel; it holds only strings. *has false if there is none. */
static gs_status read_number(const gs_tensor_file *f, const char *name, double low, double high,
                             gs_by_channel *out, bool *has) {
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(f->metadata, name);
    const char *text = text_of(item);
    gs_by_channel value;
    *has = item != NULL;
    if (!item) return GS_OK;
    if (!cJSON_IsString(item))
        return gs_fail(GS_E_FORMAT, "%s: '%s' in the metadata is not a string; wanted \"%s\": \"0.5\"",
                       f->path, name, name);
    if (!gs_by_channel_read(text, &value))
        return gs_fail(GS_E_FORMAT,
                       "%s: '%s' in the metadata is '%s'; wanted a number, or up to %d with commas", f->path,
                       name, gs_printable(text), GS_CHANNELS);
    if (!gs_by_channel_within(&value, low, high))
        return gs_fail(GS_E_FORMAT, "%s: '%s' in the metadata is %s; wanted a number from %g to %g", f->path,
                       name, gs_printable(text), low, high);
    *out = value;
    return GS_OK;
}

static gs_status read_about(const gs_tensor_file *f, gs_saved *s) {
    GS_TRY(read_number(f, "mean", -GS_MEAN_MOST, GS_MEAN_MOST, &s->scaling.mean, &s->has_mean));
    GS_TRY(read_number(f, "std", GS_STD_LEAST, GS_STD_MOST, &s->scaling.std, &s->has_std));
    const cJSON *model = cJSON_GetObjectItemCaseSensitive(f->metadata, "model");
    const cJSON *input = cJSON_GetObjectItemCaseSensitive(f->metadata, "input");
    if (!cJSON_IsString(model)) return GS_OK;
    s->has_in = input != NULL;
    if (input && !cJSON_IsString(input))
        return gs_fail(GS_E_FORMAT,
                       "%s: 'input' in the metadata is not a string; wanted \"input\": \"1x28x28\"", f->path);
    if (input && !gs_shape_parse(text_of(input), &s->in))
        return gs_fail(GS_E_FORMAT, "%s: 'input' in the metadata is '%s'; wanted a shape such as 1x28x28",
                       f->path, gs_printable(text_of(input)));
    s->model = strdup(model->valuestring);
    return s->model ? GS_OK : gs_fail(GS_E_MEMORY, "%s: no memory for the model's text", f->path);
}

gs_status gs_safetensors_about(const char *path, gs_saved *out) {
    gs_tensor_file f;
    *out = (gs_saved){.scaling = GS_NOT_SCALED};
    gs_status st = gs_tensor_file_open(path, &f);
    if (st == GS_OK) st = read_about(&f, out);
    gs_tensor_file_close(&f);
    return st;
}

void gs_saved_free(gs_saved *s) {
    free(s->model);
    *s = (gs_saved){0};
}

/* ---- the model's parameters among the tensors ---- */

/* Names may have something in front: "model.0.weight", "module.net.0.weight". It ends with a dot and is `length`
 * bytes long. */
typedef struct prefix {
    const char *text;
    size_t length;
} prefix;

static const gs_tensor *find_tensor(const gs_tensor_file *f, prefix before, const char *name) {
    for (size_t i = 0; i < f->count; i++)
        if (strncmp(f->tensors[i].name, before.text, before.length) == 0 &&
            strcmp(f->tensors[i].name + before.length, name) == 0)
            return &f->tensors[i];
    return NULL;
}

static bool all_begin_with(const gs_tensor_file *f, prefix before) {
    for (size_t i = 0; i < f->count; i++)
        if (strncmp(f->tensors[i].name, before.text, before.length) != 0) return false;
    return true;
}

/* How much of a tensor's name is in front of this one of the model's; -1: that does not end it. */
static int length_in_front(const char *name, const char *of) {
    size_t length = strlen(name), end = strlen(of);
    if (length < end || strcmp(name + length - end, of) != 0) return -1;
    return length == end || name[length - end - 1] == '.' ? (int)(length - end) : -1;
}

/* What all tensors have in front of the model's names: the shortest beginning behind which one of them has the name
 * of the first parameter. False: there is none. */
static bool find_prefix(const gs_tensor_file *f, const char *first, prefix *best) {
    *best = (prefix){"", 0};
    bool found = false;
    for (size_t i = 0; i < f->count; i++) {
        const char *name = f->tensors[i].name;
        int length = length_in_front(name, first);
        prefix here = {name, (size_t)length};
        if (length < 0 || !all_begin_with(f, here)) continue;
        if (!found || here.length < best->length) *best = here;
        found = true;
    }
    return found;
}

/* The tensors of a file that are the model's, under its own names or those of others. */
typedef struct match {
    const gs_tensor_file *file;
    const gs_model *model;
    gs_name *name; /* of each parameter */
    prefix before;
} match;

/* Which names has the file? Its own, unless the first parameter is there under another one alone. */
static gs_status match_begin(match *m, const gs_tensor_file *f, const gs_model *model) {
    const int count = model->saved_count;
    *m = (match){f, model, calloc((size_t)count + 1, sizeof *m->name), {"", 0}};
    if (!m->name) return gs_fail(GS_E_MEMORY, "%s: no memory for the names of %d tensors", f->path, count);
    GS_TRY(gs_names_of(model, GS_NAMES_OWN, m->name));
    if (count == 0 || find_prefix(f, m->name[0].text, &m->before)) return GS_OK;
    if (model->net && gs_names_of(model, GS_NAMES_TORCHVISION, m->name) == GS_OK &&
        find_prefix(f, m->name[0].text, &m->before))
        return GS_OK;
    m->before.length = 0;
    return gs_names_of(model, GS_NAMES_OWN, m->name);
}

static bool is_parameter(const match *m, const char *name) {
    for (int i = 0; i < m->model->saved_count; i++)
        if (strcmp(m->name[i].text, name) == 0) return true;
    return false;
}

/* PyTorch counts the batches that batch_norm has seen, and computes nothing from it. */
static bool is_counter(const char *name) {
    static const char counter[] = "num_batches_tracked";
    const char *last = strrchr(name, '.');
    return last && strcmp(last + 1, counter) == 0;
}

/* The same for any of the model's names. */
static int front_of(const match *m, const char *name) {
    int length = -1;
    for (int i = 0; i < m->model->saved_count && length < 0; i++)
        length = length_in_front(name, m->name[i].text);
    return length;
}

/* "model.1.weight", "module.1.bias": GS_E_SHAPE. */
static gs_status check_fronts(const match *m) {
    const gs_tensor_file *f = m->file;
    const char *first = NULL;
    int length = 0;
    for (size_t i = 0; i < f->count; i++) {
        const char *name = f->tensors[i].name;
        int here = front_of(m, name);
        bool same = first && here == length && strncmp(first, name, (size_t)length) == 0;
        if (here < 0 || same) continue;
        if (first)
            return gs_fail(GS_E_SHAPE,
                           "%s: %s and %s have different prefixes; wanted the same prefix for all of the "
                           "model's names, or none (%s)",
                           f->path, gs_printable(first), gs_printable(name), name + here);
        first = name;
        length = here;
    }
    return GS_OK;
}

static gs_status missing(const match *m, const char *name, const char *wanted) {
    const gs_tensor_file *f = m->file;
    char others[120] = "";
    GS_TRY(check_fronts(m));
    if (f->count > 0)
        snprintf(others, sizeof others, "; what is there begins with %s", gs_printable(f->tensors[0].name));
    return gs_fail(GS_E_SHAPE, "%s is missing in %s; the model has %s%s", name, f->path, wanted, others);
}

/* The file's tensors are exactly the model's. */
static gs_status check_model(const match *m) {
    const gs_tensor_file *f = m->file;
    char found[200], wanted[200];
    for (int i = 0; i < m->model->saved_count; i++) {
        const gs_param *p = m->model->param[i];
        const gs_tensor *t = find_tensor(f, m->before, m->name[i].text);
        size_t used = 0;
        for (int d = 0; d < p->ndim; d++)
            used += (size_t)snprintf(wanted + used, sizeof wanted - used, "%s%d", d ? "," : "(", p->dims[d]);
        strcpy(wanted + used, ")");
        if (!t) return missing(m, m->name[i].text, wanted);
        if (strcmp(gs_tensor_shape(t->shape, found, sizeof found), wanted) != 0)
            return gs_fail(GS_E_SHAPE, "%s is %s in %s; the model has %s", gs_printable(t->name), found,
                           f->path, wanted);
        if (t->type == GS_TENSOR_OTHER)
            return gs_fail(GS_E_FORMAT, "%s: %s is %s; wanted F32, F16 or BF16", f->path,
                           gs_printable(t->name), gs_printable(t->dtype));
    }
    for (size_t i = 0; i < f->count; i++) {
        const gs_tensor *t = &f->tensors[i];
        if (!is_parameter(m, t->name + m->before.length) && !is_counter(t->name)) /* all begin with it */
            return gs_fail(GS_E_SHAPE, "%s %s is in %s, but the model has no such parameter",
                           gs_printable(t->name), gs_tensor_shape(t->shape, found, sizeof found), f->path);
    }
    return GS_OK;
}

gs_status gs_safetensors_check(const char *path, const gs_model *model) {
    gs_tensor_file f;
    match m = {0};
    gs_status st = gs_tensor_file_open(path, &f);
    if (st == GS_OK) st = match_begin(&m, &f, model);
    if (st == GS_OK) st = check_model(&m);
    free(m.name);
    gs_tensor_file_close(&f);
    return st;
}

/* ---- load ---- */

/* A parameter as f32, which holds every number of 16 bits exactly. */
static gs_status read_values(gs_tensor_file *f, const gs_tensor *t, float *to, size_t count) {
    if (fseeko(f->file, (off_t)(f->data_at + t->begin), SEEK_SET) != 0)
        return gs_fail(GS_E_FILE, "cannot read %s: %s", f->path, strerror(errno));
    if (t->type == GS_TENSOR_F32) return gs_tensor_file_read(f, to, count * sizeof *to);
    uint16_t *half = malloc(count * sizeof *half + 1);
    if (!half) return gs_fail(GS_E_MEMORY, "%s: no memory for %zu numbers", f->path, count);
    gs_status st = gs_tensor_file_read(f, half, count * sizeof *half);
    if (st == GS_OK) gs_wire_widen(t->type == GS_TENSOR_F16 ? GS_WIRE_F16 : GS_WIRE_BF16, to, half, count);
    free(half);
    return st;
}

gs_status gs_safetensors_load(const char *path, const gs_model *model, float *host) {
    gs_tensor_file f;
    match m = {0};
    gs_status st = gs_tensor_file_open(path, &f);
    if (st == GS_OK) st = match_begin(&m, &f, model);
    if (st == GS_OK) st = check_model(&m);
    for (int i = 0; st == GS_OK && i < model->saved_count; i++) {
        const gs_param *p = model->param[i];
        st = read_values(&f, find_tensor(&f, m.before, m.name[i].text), host + p->at, p->count);
    }
    free(m.name);
    gs_tensor_file_close(&f);
    return st;
}
