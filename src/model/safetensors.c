#include "model/safetensors.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "core/text.h"
#include "model/match.h"
#include "model/safetensors_file.h"
#include "sync/wire.h" /* the conversions */

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

/* The characters are in ascending order, each once: so token i is character i of them. */
static gs_status characters_of(const char *text, gs_vocabulary *v) {
    static const char where[] = "'vocabulary' in the metadata";
    uint16_t *token;
    size_t count;
    GS_TRY(gs_vocabulary_of(GS_TOKENS_CHARS, text, strlen(text), where, v));
    GS_TRY(gs_vocabulary_encode(v, text, strlen(text), where, &token, &count));
    bool grows = count == (size_t)v->size;
    for (size_t i = 0; grows && i < count; i++) grows = token[i] == i;
    free(token);
    if (grows) return GS_OK;
    return gs_fail(GS_E_FORMAT,
                   "%s has a character twice, or after a larger one; wanted each once, sorted by code point",
                   where);
}

static gs_status vocabulary_of(const gs_tensor_file *f, const char *tokens, gs_vocabulary *v) {
    const cJSON *vocabulary = cJSON_GetObjectItemCaseSensitive(f->metadata, "vocabulary");
    const cJSON *merges = cJSON_GetObjectItemCaseSensitive(f->metadata, "merges");
    const bool bpe = strcmp(tokens, "bpe") == 0;
    *v = (gs_vocabulary){.kind = GS_TOKENS_BYTES, .size = GS_VOCABULARY_BYTES};
    if (strcmp(tokens, "bytes") == 0) return GS_OK;
    if (!bpe && strcmp(tokens, "chars") != 0)
        return gs_fail(GS_E_FORMAT, "'tokens' in the metadata is '%s'; wanted chars, bytes or bpe",
                       gs_printable(tokens));
    if (!cJSON_IsString(vocabulary) || (bpe && !cJSON_IsString(merges)))
        return gs_fail(GS_E_FORMAT,
                       "'tokens' in the metadata is %s, but there is no '%s' that is a string of them",
                       tokens, cJSON_IsString(vocabulary) ? "merges" : "vocabulary");
    if (!bpe) return characters_of(vocabulary->valuestring, v);
    v->kind = GS_TOKENS_BPE;
    GS_TRY(gs_bpe_read(vocabulary->valuestring, merges->valuestring, "the metadata", &v->bpe));
    v->size = gs_bpe_size(v->bpe);
    return GS_OK;
}

static gs_status read_vocabulary(const gs_tensor_file *f, gs_saved *s) {
    const cJSON *tokens = cJSON_GetObjectItemCaseSensitive(f->metadata, "tokens");
    if (!tokens) return GS_OK;
    s->vocabulary = calloc(1, sizeof *s->vocabulary);
    if (!s->vocabulary) return gs_fail(GS_E_MEMORY, "%s: no memory for the vocabulary", f->path);
    return gs_context(vocabulary_of(f, text_of(tokens), s->vocabulary), "%s", f->path);
}

static gs_status read_about(const gs_tensor_file *f, gs_saved *s) {
    GS_TRY(read_number(f, "mean", -GS_MEAN_MOST, GS_MEAN_MOST, &s->scaling.mean, &s->has_mean));
    GS_TRY(read_number(f, "std", GS_STD_LEAST, GS_STD_MOST, &s->scaling.std, &s->has_std));
    GS_TRY(read_vocabulary(f, s));
    const cJSON *state = cJSON_GetObjectItemCaseSensitive(f->metadata, GS_STATE_KEY);
    if (cJSON_IsString(state) && !(s->state = strdup(state->valuestring)))
        return gs_fail(GS_E_MEMORY, "%s: no memory for the state's text", f->path);
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
    free(s->state);
    if (s->vocabulary) gs_vocabulary_free(s->vocabulary);
    free(s->vocabulary);
    *s = (gs_saved){0};
}

/* ---- check and load ---- */

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

/* w (rows, columns) = the transpose of what it holds. */
static gs_status transpose(float *w, size_t rows, size_t columns) {
    float *turned = malloc(rows * columns * sizeof *turned);
    if (!turned) return gs_fail(GS_E_MEMORY, "no memory to transpose %zu numbers", rows * columns);
    memcpy(turned, w, rows * columns * sizeof *turned);
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < columns; c++) w[r * columns + c] = turned[c * rows + r];
    free(turned);
    return GS_OK;
}

/* If the file has an output layer of its own, though the model's is tied. */
static gs_status check_tied_output(gs_tensor_file *f, const gs_match *m, const float *table) {
    const gs_tensor *t = gs_match_tied_output(m);
    const size_t count = m->model->param[0]->count;
    if (!t) return GS_OK;
    float *output = malloc(count * sizeof *output);
    if (!output) return gs_fail(GS_E_MEMORY, "%s: no memory for %zu numbers", f->path, count);
    gs_status st = read_values(f, t, output, count);
    if (st == GS_OK && memcmp(output, table, count * sizeof *output) != 0)
        st = gs_fail(
            GS_E_SHAPE,
            "%s: %s differs from %s, but the model's output layer is tied to its embedding: they are one "
            "tensor; write `linear %d no_bias` in place of `tied` for a model of both",
            f->path, t->name, m->name[0].text, m->model->param[0]->dims[0]);
    free(output);
    return st;
}

gs_status gs_safetensors_check(const char *path, const gs_model *model) {
    gs_tensor_file f;
    gs_match m = {0};
    gs_status st = gs_tensor_file_open(path, &f);
    if (st == GS_OK) st = gs_match_begin(&m, &f, model);
    if (st == GS_OK) st = gs_match_check(&m);
    free(m.name);
    gs_tensor_file_close(&f);
    return st;
}

gs_status gs_safetensors_load(const char *path, const gs_model *model, float *host) {
    gs_tensor_file f;
    gs_match m = {0};
    gs_status st = gs_tensor_file_open(path, &f);
    if (st == GS_OK) st = gs_match_begin(&m, &f, model);
    if (st == GS_OK) st = gs_match_check(&m);
    for (int i = 0; st == GS_OK && i < model->saved_count; i++) {
        const gs_param *p = model->param[i];
        st = read_values(&f, gs_match_find(&m, m.name[i].text), host + p->at, p->count);
        if (st == GS_OK && m.name[i].transposed)
            st = transpose(host + p->at, (size_t)p->dims[0], (size_t)p->dims[1]);
    }
    if (st == GS_OK && model->saved_count > 0) st = check_tied_output(&f, &m, host + model->param[0]->at);
    free(m.name);
    gs_tensor_file_close(&f);
    return st;
}

/* ---- vectors beside the weights ---- */

static const gs_tensor *find_beside(const gs_tensor_file *f, const char *name) {
    for (size_t i = 0; i < f->besides; i++)
        if (strcmp(f->beside[i].name, name) == 0) return &f->beside[i];
    return NULL;
}

/* Vector v of parameter i. */
static gs_status read_beside(const gs_match *m, gs_tensor_file *f, const gs_beside *b, int v, int i) {
    const gs_param *p = m->model->param[i];
    const bool transposed = m->name[i].transposed;
    char name[GS_BESIDE_NAME], found[200], wanted[200];
    gs_beside_name(b->name[v], m->name[i].text, name);
    const gs_tensor *t = find_beside(f, name);
    gs_match_shape(p, transposed, wanted, sizeof wanted);
    if (!t)
        return gs_fail(GS_E_SHAPE, "%s is missing in %s; wanted %s, the state of %s", name, f->path, wanted,
                       m->name[i].text);
    if (strcmp(gs_tensor_shape(t->shape, found, sizeof found), wanted) != 0)
        return gs_fail(GS_E_SHAPE, "%s is %s in %s; wanted %s, the shape of %s", gs_printable(t->name), found,
                       f->path, wanted, m->name[i].text);
    if (t->type != GS_TENSOR_F32)
        return gs_fail(GS_E_FORMAT, "%s: %s is %s; wanted F32", f->path, gs_printable(t->name),
                       gs_printable(t->dtype));
    float *to = b->vector[v] + p->at;
    GS_TRY(read_values(f, t, to, p->count));
    return transposed ? transpose(to, (size_t)p->dims[0], (size_t)p->dims[1]) : GS_OK;
}

static gs_status read_all_beside(const gs_match *m, gs_tensor_file *f, const gs_beside *b) {
    const size_t wanted = (size_t)b->count * (size_t)m->model->param_count;
    for (int v = 0; v < b->count; v++)
        for (int i = 0; i < m->model->param_count; i++) GS_TRY(read_beside(m, f, b, v, i));
    if (f->besides == wanted) return GS_OK;
    return gs_fail(GS_E_SHAPE, "%s has %zu tensors of an optimiser's state; wanted %zu", f->path, f->besides,
                   wanted);
}

gs_status gs_safetensors_load_beside(const char *path, const gs_model *model, const gs_beside *b) {
    gs_tensor_file f;
    gs_match m = {0};
    gs_status st = gs_tensor_file_open(path, &f);
    if (st == GS_OK) st = gs_match_begin(&m, &f, model);
    if (st == GS_OK) st = read_all_beside(&m, &f, b);
    free(m.name);
    gs_tensor_file_close(&f);
    return st;
}
