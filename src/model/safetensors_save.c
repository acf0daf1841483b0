/* Weights, and what lies beside them, are written. */
#include <cjson/cJSON.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "core/nettle.h"
#include "core/text.h"
#include "core/version.h"
#include "io/file.h"
#include "io/json.h"
#include "model/match.h"
#include "model/safetensors.h"
#include "model/safetensors_file.h"

void gs_beside_name(const char *vector, const char *parameter, char *name) {
    snprintf(name, GS_BESIDE_NAME, GS_BESIDE_PREFIX "%s.%s", vector, parameter);
}

/* "0.1" or "0.1,0.2,0.3"; nine digits give the same float back. */
static void print_numbers(const gs_by_channel *x, char *text, size_t size) {
    *text = '\0';
    for (int c = 0; c < x->count; c++) gs_append(text, size, "%s%.9g", c ? "," : "", (double)x->of[c]);
}

static char *characters_of(const gs_vocabulary *v) {
    uint16_t *all = malloc((size_t)v->size * sizeof *all);
    char *text = NULL;
    size_t bytes;
    for (int i = 0; all && i < v->size; i++) all[i] = (uint16_t)i;
    if (all && gs_vocabulary_decode(v, all, (size_t)v->size, &text, &bytes) != GS_OK) text = NULL;
    free(all);
    return text;
}

/* What each token is: a byte; a character of this row; or bytes that were joined. */
static bool add_vocabulary(cJSON *metadata, const gs_vocabulary *v) {
    char *vocabulary = NULL, *merges = NULL;
    if (!v) return true;
    bool ok = cJSON_AddStringToObject(metadata, "tokens", gs_tokens_name(v->kind)) != NULL;
    if (v->kind == GS_TOKENS_BYTES) return ok;
    if (v->kind == GS_TOKENS_BPE)
        ok = ok && gs_bpe_texts(v->bpe, &vocabulary, &merges) == GS_OK;
    else
        vocabulary = characters_of(v);
    ok = ok && vocabulary && cJSON_AddStringToObject(metadata, "vocabulary", vocabulary) &&
         (!merges || cJSON_AddStringToObject(metadata, "merges", merges));
    free(vocabulary);
    free(merges);
    return ok;
}

/* It lies at byte *at of the data. */
static bool add_tensor(cJSON *header, const char *name, const gs_param *p, double *at) {
    const double begin = *at, end = *at += 4.0 * (double)p->count;
    int dims[4];
    gs_match_dims(p, p->transposed, dims);
    cJSON *tensor = cJSON_AddObjectToObject(header, name);
    return cJSON_AddStringToObject(tensor, "dtype", "F32") &&
           cJSON_AddItemToObject(tensor, "shape", cJSON_CreateIntArray(dims, p->ndim)) &&
           cJSON_AddItemToObject(tensor, "data_offsets", cJSON_CreateDoubleArray((double[]){begin, end}, 2));
}

/* The header's text, with spaces at its end so that the data begins at a multiple of 8; NULL: out of memory. */
static char *header_text(const gs_model *model, const gs_beside *beside) {
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
              add_vocabulary(metadata, model->vocabulary) &&
              cJSON_AddStringToObject(metadata, "gradsum", GRADSUM_VERSION);

    if (ok && beside->about) ok = cJSON_AddStringToObject(metadata, GS_STATE_KEY, beside->about) != NULL;

    double at = 0;
    for (int i = 0; ok && i < model->saved_count; i++)
        ok = add_tensor(header, model->param[i]->name, model->param[i], &at);
    for (int v = 0; ok && v < beside->count; v++)
        for (int i = 0; ok && i < model->param_count; i++) {
            char name[GS_BESIDE_NAME];
            gs_beside_name(beside->name[v], model->param[i]->name, name);
            ok = add_tensor(header, name, model->param[i], &at);
        }
    if (ok) text = gs_json_to_text(header, false);
    cJSON_Delete(header);
    if (!text) return NULL;

    const int spaces = (int)(-strlen(text) % 8);
    if (asprintf(&padded, "%s%*s", text, spaces, "") < 0) padded = NULL;
    free(text);
    return padded;
}

/* Where the bytes go: to the file, and where it is wanted, into their hash. */
typedef struct sink {
    FILE *file;
    struct sha256_ctx *hash;
    uint64_t bytes;
} sink;

static bool put(sink *s, const void *data, size_t bytes) {
    if (s->hash) sha256_update(s->hash, bytes, data);
    s->bytes += bytes;
    return fwrite(data, 1, bytes, s->file) == bytes;
}

/* (out, in) as (in, out): a column at a time. */
static bool write_transposed(sink *s, const gs_param *p, const float *w) {
    const size_t rows = (size_t)p->dims[0], columns = (size_t)p->dims[1];
    float *column = malloc(rows * sizeof *column);
    bool ok = column != NULL;
    for (size_t c = 0; ok && c < columns; c++) {
        for (size_t r = 0; r < rows; r++) column[r] = w[r * columns + c];
        ok = put(s, column, rows * sizeof *column);
    }
    free(column);
    return ok;
}

/* The first `count` parameters, or state. */
static bool write_values(sink *s, const gs_model *model, int count, const float *host) {
    for (int i = 0; i < count; i++) {
        const gs_param *p = model->param[i];
        const float *w = host + p->at;
        if (!(p->transposed ? write_transposed(s, p, w) : put(s, w, p->count * sizeof *w))) return false;
    }
    return true;
}

static bool write_all(sink *s, const gs_model *model, const char *header, const float *host,
                      const gs_beside *beside) {
    const uint64_t length = strlen(header);
    if (!put(s, &length, sizeof length) || !put(s, header, length)) return false;
    if (!write_values(s, model, model->saved_count, host)) return false;
    for (int v = 0; v < beside->count; v++)
        if (!write_values(s, model, model->param_count, beside->vector[v])) return false;
    return true;
}

static void tell(sink *s, gs_written *written) {
    written->bytes = s->bytes;
    gs_sha256_end(s->hash, written->sha256);
}

gs_status gs_safetensors_save_beside(const char *path, const gs_model *model, const float *host,
                                     const gs_beside *beside) {
    char *header = header_text(model, beside);
    if (!header) return gs_fail(GS_E_MEMORY, "cannot write %s: %s", path, strerror(ENOMEM));
    gs_file_writer w;
    struct sha256_ctx hash;
    gs_status st = gs_file_writer_open(path, &w);
    sink s = {w.file, beside->written ? &hash : NULL, 0};
    sha256_init(&hash);
    if (st == GS_OK && !write_all(&s, model, header, host, beside))
        st = gs_fail(GS_E_FILE, "cannot write %s: %s", path, strerror(errno));
    if (st == GS_OK)
        st = gs_file_writer_commit(&w);
    else
        gs_file_writer_discard(&w);
    if (st == GS_OK && beside->written) tell(&s, beside->written);
    free(header);
    return st;
}

gs_status gs_safetensors_save(const char *path, const gs_model *model, const float *host) {
    const gs_beside nothing = {0};
    return gs_safetensors_save_beside(path, model, host, &nothing);
}
