#include "model/safetensors.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include "core/nettle.h"
#include "core/text.h"
#include "io/file.h"
#include "io/json.h"
#include "model/names.h"
#include "sync/wire.h" /* conversions between float formats */

#define STATE_KEY "state"          /* in the metadata; if it is missing, all tensors are weights */
#define BESIDE_PREFIX "optimizer." /* begins the names of tensors that are not weights */

typedef enum tensor_type { TENSOR_F32, TENSOR_F16, TENSOR_BF16, TENSOR_OTHER } tensor_type;

/* A tensor in the header, checked against the file's size but not yet against a model. */
typedef struct file_tensor {
    const char *name;
    const cJSON *shape;
    tensor_type type;    /* TENSOR_OTHER: cannot be read */
    const char *dtype;   /* the type's name in the file */
    uint64_t begin, end; /* offsets in bytes from the start of the data */
} file_tensor;

typedef struct tensor_file {
    const char *path;
    FILE *file;
    uint64_t data_at, data_bytes;
    cJSON *header;
    const cJSON *metadata; /* may be NULL */
    file_tensor *tensors;  /* weights, in the order of their data */
    size_t count;
    file_tensor *extra; /* after the weights: a run's state (gs_extra_tensors) */
    size_t extras;
} tensor_file;

/* Writes "optimizer.velocity.3.weight"; `name` has GS_EXTRA_NAME bytes. */
static void extra_name(const char *vector, const char *parameter, char *name) {
    snprintf(name, GS_EXTRA_NAME, BESIDE_PREFIX "%s.%s", vector, parameter);
}

/* ---- open a file and check its header ---- */

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the file holds numbers as they lie in memory");

enum { LENGTH_BYTES = 8, MAX_HEADER = 100000000 }; /* the format's own limit: 100 MB */

static void tensor_file_close(tensor_file *f) {
    if (f->file) fclose(f->file);
    cJSON_Delete(f->header);
    free(f->tensors);
}

static gs_status tensor_file_read(tensor_file *f, void *data, size_t bytes) {
    errno = 0;
    if (fread(data, 1, bytes, f->file) == bytes) return GS_OK;
    return gs_fail(GS_E_FILE, "cannot read %s: %s", f->path,
                   errno ? strerror(errno) : "it shrank while it was read");
}

static gs_status read_header(tensor_file *f, uint64_t size) {
    uint64_t length;
    if (size < LENGTH_BYTES)
        return gs_fail(GS_E_FORMAT, "%s is truncated: it has %" PRIu64 " bytes; wanted at least %d", f->path,
                       size, LENGTH_BYTES);
    GS_TRY(tensor_file_read(f, &length, sizeof length));
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

    char *text;
    GS_TRY(GS_NEW(text, length, "a header of %" PRIu64 " bytes, of %s", length, f->path));
    gs_status st = tensor_file_read(f, text, length);
    if (st == GS_OK) st = gs_context(gs_json_object("the header", text, length, &f->header), "%s", f->path);
    free(text);
    return st;
}

/* True for an integer from 0 to 2^53, up to which a JSON number (a double) is exact. */
static bool is_size(const cJSON *item) {
    double v = cJSON_IsNumber(item) ? item->valuedouble : -1;
    return v >= 0 && v <= 9007199254740992.0 && v == (double)(uint64_t)v;
}

/* Write a shape into `text` as "(32,1,3,3)". */
static const char *tensor_shape(const cJSON *shape, char *text, size_t size) {
    const cJSON *dim;
    size_t used = 1;
    strcpy(text, "(");
    cJSON_ArrayForEach(dim, shape) {
        int n = snprintf(text + used, size - used, "%s%.0f", used > 1 ? "," : "", dim->valuedouble);
        if (used + (size_t)n + 2 > size) break; /* far longer than any model's shape */
        used += (size_t)n;
    }
    strcpy(text + used, ")");
    return text;
}

static tensor_type find_type(const char *name) {
    static const char *const names[] = {[TENSOR_F32] = "F32", [TENSOR_F16] = "F16", [TENSOR_BF16] = "BF16"};
    for (int i = 0; i < 3; i++)
        if (strcmp(name, names[i]) == 0) return (tensor_type)i;
    return TENSOR_OTHER;
}

static gs_status read_tensor(const tensor_file *f, const cJSON *item, file_tensor *t) {
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
    *t = (file_tensor){.name = item->string,
                       .shape = shape,
                       .type = find_type(dtype->valuestring),
                       .dtype = dtype->valuestring,
                       .begin = (uint64_t)begin->valuedouble,
                       .end = (uint64_t)end->valuedouble};
    bytes *= t->type == TENSOR_F32 ? 4 : 2;
    if (t->begin > t->end || t->end > f->data_bytes)
        return gs_fail(GS_E_FORMAT,
                       "%s is truncated or damaged: %s lies at bytes %" PRIu64 " to %" PRIu64
                       " of the data, which has %" PRIu64,
                       f->path, name, t->begin, t->end, f->data_bytes);
    if (t->type != TENSOR_OTHER && bytes != (double)(t->end - t->begin)) {
        char text[200];
        return gs_fail(GS_E_FORMAT, "%s: %s is %s, %.0f bytes, but has %" PRIu64 " bytes of data", f->path,
                       name, tensor_shape(shape, text, sizeof text), bytes, t->end - t->begin);
    }
    return GS_OK;
}

static int by_place(const void *a, const void *b) {
    const file_tensor *s = a, *t = b;
    if (s->begin != t->begin) return s->begin < t->begin ? -1 : 1;
    return (s->end > t->end) - (s->end < t->end);
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const file_tensor *)a)->name, ((const file_tensor *)b)->name);
}

/* Check each tensor, then all of them together, because they must fill the data without overlap or gap. */
static gs_status read_tensors(tensor_file *f) {
    GS_TRY(GS_NEW(f->tensors, cJSON_GetArraySize(f->header), "the list of tensors of %s", f->path));
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
        const file_tensor *t = &f->tensors[i];
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

static bool is_extra(const file_tensor *t) {
    return strncmp(t->name, BESIDE_PREFIX, strlen(BESIDE_PREFIX)) == 0;
}

static int weights_first(const void *a, const void *b) {
    const bool s = is_extra(a), t = is_extra(b);
    return s != t ? s - t : by_place(a, b);
}

/* Set a run's state aside. Only the metadata tell that there is one: a model may have a layer named "optimizer". */
static void set_aside(tensor_file *f) {
    const size_t all = f->count;
    if (!cJSON_IsString(cJSON_GetObjectItemCaseSensitive(f->metadata, STATE_KEY))) return;
    qsort(f->tensors, all, sizeof *f->tensors, weights_first);
    while (f->count > 0 && is_extra(&f->tensors[f->count - 1])) f->count--;
    f->extra = f->tensors + f->count;
    f->extras = all - f->count;
}

/* Close the file even after a failure. */
static gs_status tensor_file_open(const char *path, tensor_file *f) {
    static const char wanted[] = "a safetensors file (in Python: safetensors.torch.save_model)";
    uint64_t size;
    *f = (tensor_file){.path = path};
    GS_TRY(gs_file_open_stream(path, &f->file, &size));
    GS_TRY(gs_foreign_explain(read_header(f, size), path, wanted));
    GS_TRY(read_tensors(f));
    set_aside(f);
    return GS_OK;
}

/* ---- match tensors and parameters by gradsum's names or other programs' names (names.h) ---- */

/* The common prefix of a file's names, such as "model." in "model.0.weight": `length` bytes ending in a dot, or 0. */
typedef struct name_prefix {
    const char *text;
    size_t length;
} name_prefix;

typedef struct match {
    const tensor_file *file;
    const gs_model *model;
    gs_name *name; /* for each parameter */
    name_prefix before;
} match;

/* The shape that a parameter has in a file. */
static void match_dims(const gs_param *p, bool transposed, int dims[4]) {
    for (int d = 0; d < p->ndim; d++) dims[d] = p->dims[transposed ? p->ndim - 1 - d : d];
}

/* That shape as text: "(32,1,3,3)". */
static void match_shape(const gs_param *p, bool transposed, char *text, size_t size) {
    int dims[4];
    match_dims(p, transposed, dims);
    *text = '\0';
    for (int d = 0; d < p->ndim; d++)
        gs_append(text, size, "%s%d%s", d ? "," : "(", dims[d], d + 1 < p->ndim ? "" : ")");
}

/* Hugging Face names the output layer even if its weight is the embedding's. This layer's prefix is only the beginning
 * of the other tensors' prefix: "_orig_mod.lm_head.weight" beside "_orig_mod.transformer.wte.weight". */
static const char OUTPUT[] = "lm_head.weight", TABLE[] = "wte.weight";

/* The length of the prefix that precedes the model's name `of` in a tensor's name; -1: it is another name. */
static int length_in_front(const char *name, const char *of) {
    size_t length = strlen(name), end = strlen(of);
    if (!gs_ends_with(name, length, of)) return -1;
    return length == end || name[length - end - 1] == '.' ? (int)(length - end) : -1;
}

/* True if the name `full` in the file refers to the tensor that the model calls `name`. */
static bool is_named(const char *full, name_prefix before, const char *name) {
    const int length = length_in_front(full, name);
    if (length < 0 || (size_t)length > before.length || strncmp(full, before.text, (size_t)length) != 0)
        return false;
    return (size_t)length == before.length || strcmp(name, OUTPUT) == 0;
}

/* Of several tensors that share memory, safetensors.torch.save_model writes one; the metadata map the others to it. */
static const file_tensor *find_tensor(const tensor_file *f, name_prefix before, const char *name) {
    const cJSON *shared = f->metadata ? f->metadata->child : NULL;
    for (size_t i = 0; i < f->count; i++)
        if (is_named(f->tensors[i].name, before, name)) return &f->tensors[i];
    for (; shared; shared = shared->next)
        for (size_t i = 0; i < f->count && cJSON_IsString(shared); i++)
            if (is_named(shared->string, before, name) &&
                strcmp(f->tensors[i].name, shared->valuestring) == 0)
                return &f->tensors[i];
    return NULL;
}

static bool is_parameter(const match *m, const char *name) {
    for (int i = 0; i < m->model->saved_count; i++)
        if (strcmp(m->name[i].text, name) == 0) return true;
    return false;
}

static bool is_gpt2(const match *m) {
    return m->model->saved_count > 0 && strcmp(m->name[0].text, TABLE) == 0;
}

/* For a model with a tied output layer: that layer's own tensor, which a Hugging Face GPT-2 file may also hold. It must
 * equal the embedding's table, the model's first tensor. NULL: none, as usual. */
static const file_tensor *match_tied_output(const match *m) {
    return is_gpt2(m) && !is_parameter(m, OUTPUT) ? find_tensor(m->file, m->before, OUTPUT) : NULL;
}

/* The tensor with this name (given without the prefix), or NULL. A tied table may have the output layer's name. */
static const file_tensor *match_find(const match *m, const char *name) {
    const file_tensor *t = find_tensor(m->file, m->before, name);
    return t || strcmp(name, TABLE) != 0 ? t : match_tied_output(m);
}

static bool all_begin_with(const tensor_file *f, name_prefix before) {
    for (size_t i = 0; i < f->count; i++)
        if (strncmp(f->tensors[i].name, before.text, before.length) != 0 &&
            !is_named(f->tensors[i].name, before, OUTPUT))
            return false;
    return true;
}

/* The prefix of all tensors: the shortest that precedes the first parameter's name. False: no tensor has that name. */
static bool find_prefix(const tensor_file *f, const char *first, name_prefix *best) {
    *best = (name_prefix){"", 0};
    bool found = false;
    for (size_t i = 0; i < f->count; i++) {
        const char *name = f->tensors[i].name;
        int length = length_in_front(name, first);
        name_prefix here = {name, (size_t)length};
        if (length < 0 || !all_begin_with(f, here)) continue;
        if (!found || here.length < best->length) *best = here;
        found = true;
    }
    return found;
}

/* nanoGPT uses GPT-2's names, but its linear layers are (out, in) as in gradsum. The shape of the first c_attn, (3n,n)
 * or (n,3n), tells which; other layers may be square. */
static void find_transposed(match *m) {
    char ours[64], found[200];
    bool as_ours = false;
    for (int i = 0; i < m->model->saved_count; i++) {
        const file_tensor *t =
            strcmp(m->name[i].text, "h.0.attn.c_attn.weight") == 0 ? match_find(m, m->name[i].text) : NULL;
        if (!t) continue;
        match_shape(m->model->param[i], false, ours, sizeof ours);
        as_ours = strcmp(tensor_shape(t->shape, found, sizeof found), ours) == 0;
    }
    for (int i = 0; i < m->model->saved_count && as_ours; i++) m->name[i].transposed = false;
}

/* Find the file's naming: the model's own, unless the first parameter appears only under another name. GPT-2's first
 * parameter may appear as the output layer; then the second parameter decides. free(m->name) even after a failure. */
static gs_status match_begin(match *m, const tensor_file *f, const gs_model *model) {
    const int count = model->saved_count;
    *m = (match){f, model, NULL, {"", 0}};
    GS_TRY(GS_NEW(m->name, count, "the names of %d tensors of %s", count, f->path));
    GS_TRY(gs_names_of(model, GS_NAMES_OWN, m->name));
    if (count == 0 || find_prefix(f, m->name[0].text, &m->before)) return GS_OK;
    for (gs_names which = GS_NAMES_TORCHVISION; model->net && which <= GS_NAMES_HUGGINGFACE; which++)
        if (gs_names_of(model, which, m->name) == GS_OK &&
            (find_prefix(f, m->name[0].text, &m->before) ||
             (which == GS_NAMES_HUGGINGFACE && find_prefix(f, m->name[1].text, &m->before)))) {
            find_transposed(m);
            return GS_OK;
        }
    m->before.length = 0;
    return gs_names_of(model, GS_NAMES_OWN, m->name);
}

/* True for tensors that are ignored: PyTorch's num_batches_tracked in batch_norm, and GPT-2's causal masks. */
static bool is_left_out(const match *m, const char *name) {
    const size_t length = strlen(name);
    return gs_ends_with(name, length, ".num_batches_tracked") ||
           (is_gpt2(m) &&
            (gs_ends_with(name, length, ".attn.bias") || gs_ends_with(name, length, ".attn.masked_bias")));
}

/* True for the same shape or, among the weights, for a table of positions with more rows. */
static bool shape_fits(const gs_param *p, const file_tensor *t, const char *wanted) {
    char found[200];
    if (strcmp(tensor_shape(t->shape, found, sizeof found), wanted) == 0) return true;
    const cJSON *rows = cJSON_GetArrayItem(t->shape, 0), *width = cJSON_GetArrayItem(t->shape, 1);
    return p->longer && !is_extra(t) && cJSON_GetArraySize(t->shape) == 2 && rows->valuedouble > p->dims[0] &&
           width->valuedouble == p->dims[1];
}

static gs_status missing(const match *m, const char *name, const char *wanted) {
    const tensor_file *f = m->file;
    char others[300] = "", found[200];
    if (f->count > 0)
        snprintf(others, sizeof others, "; what is there begins with %.80s %s",
                 gs_printable(f->tensors[0].name), tensor_shape(f->tensors[0].shape, found, sizeof found));
    return gs_fail(GS_E_SHAPE, "%s is missing in %s; the model has %s%s", name, f->path, wanted, others);
}

/* Checks that tensor t (NULL: missing), called `name`, fits parameter i. */
static gs_status check_tensor(const match *m, int i, const char *name, const file_tensor *t) {
    const gs_param *p = m->model->param[i];
    char wanted[64], found[200];
    match_shape(p, m->name[i].transposed, wanted, sizeof wanted);
    if (!t) return missing(m, name, wanted);
    if (!shape_fits(p, t, wanted))
        return gs_fail(GS_E_SHAPE, "%s is %s in %s; the model has %s", gs_printable(t->name),
                       tensor_shape(t->shape, found, sizeof found), m->file->path, wanted);
    if (t->type == TENSOR_OTHER)
        return gs_fail(GS_E_FORMAT, "%s: %s is %s; wanted F32, F16 or BF16", m->file->path,
                       gs_printable(t->name), gs_printable(t->dtype));
    return GS_OK;
}

/* Checks that the file holds exactly the model's tensors. The message names the first mismatch. */
static gs_status match_check(const match *m) {
    const tensor_file *f = m->file;
    char found[200];
    for (int i = 0; i < m->model->saved_count; i++) {
        const char *name = m->name[i].text;
        GS_TRY(check_tensor(m, i, name, match_find(m, name)));
    }
    for (size_t i = 0; i < f->count; i++) {
        const file_tensor *t = &f->tensors[i];
        if (t == match_tied_output(m)) {
            GS_TRY(check_tensor(m, 0, t->name, t));
            continue;
        }
        const char *name = is_named(t->name, m->before, OUTPUT) ? OUTPUT : t->name + m->before.length;
        if (!is_parameter(m, name) && !is_left_out(m, t->name))
            return gs_fail(GS_E_SHAPE, "%s %s is in %s, but the model has no such parameter",
                           gs_printable(t->name), tensor_shape(t->shape, found, sizeof found), f->path);
    }
    return GS_OK;
}

/* ---- metadata ---- */

static const char *text_of(const cJSON *item) {
    return cJSON_IsString(item) ? item->valuestring : "";
}

/* Read a number, or one for each channel, from a string in the metadata. *has: whether it exists. */
static gs_status read_number(const tensor_file *f, const char *name, double low, double high,
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

/* All characters in the order of their tokens; NULL: out of memory. */
static char *text_of_characters(const gs_vocabulary *v) {
    char *text = malloc(4 * (size_t)v->size + 1), *to = text;
    for (int i = 0; text && i < v->size; i++) to += gs_utf8_write(v->character[i], to);
    return text;
}

/* Read a vocabulary of characters. They must be in ascending order, each once, because token i is character i. */
static gs_status characters_of(const char *text, gs_vocabulary *v) {
    static const char where[] = "'vocabulary' in the metadata";
    GS_TRY(gs_vocabulary_of(GS_TOKENS_CHARS, text, strlen(text), where, v));
    char *sorted = text_of_characters(v);
    if (!sorted) return gs_fail(GS_E_MEMORY, "%s: no memory for %d characters", where, v->size);
    const bool same = strcmp(sorted, text) == 0;
    free(sorted);
    if (same) return GS_OK;
    return gs_fail(GS_E_FORMAT,
                   "%s has a character twice, or after a larger one; wanted each once, sorted by code point",
                   where);
}

static gs_status vocabulary_of(const tensor_file *f, const char *tokens, gs_vocabulary *v) {
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

static gs_status read_vocabulary(const tensor_file *f, gs_weights_info *s) {
    const cJSON *tokens = cJSON_GetObjectItemCaseSensitive(f->metadata, "tokens");
    if (!tokens) return GS_OK;
    GS_TRY(GS_NEW(s->vocabulary, 1, "the vocabulary of %s", f->path));
    return gs_context(vocabulary_of(f, text_of(tokens), s->vocabulary), "%s", f->path);
}

static gs_status read_info(const tensor_file *f, gs_weights_info *s) {
    GS_TRY(read_number(f, "mean", -GS_MEAN_MOST, GS_MEAN_MOST, &s->scaling.mean, &s->has_mean));
    GS_TRY(read_number(f, "std", GS_STD_LEAST, GS_STD_MOST, &s->scaling.std, &s->has_std));
    GS_TRY(read_vocabulary(f, s));
    const cJSON *state = cJSON_GetObjectItemCaseSensitive(f->metadata, STATE_KEY);
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

gs_status gs_safetensors_read_info(const char *path, gs_weights_info *out) {
    tensor_file f;
    *out = (gs_weights_info){.scaling = GS_NOT_SCALED};
    gs_status st = tensor_file_open(path, &f);
    if (st == GS_OK) st = read_info(&f, out);
    tensor_file_close(&f);
    return st;
}

void gs_weights_info_free(gs_weights_info *s) {
    free(s->model);
    free(s->state);
    if (s->vocabulary) gs_vocabulary_free(s->vocabulary);
    free(s->vocabulary);
    *s = (gs_weights_info){0};
}

/* ---- check and load ---- */

/* Read a tensor as f32, which represents all 16-bit floats exactly. */
static gs_status read_values(tensor_file *f, const file_tensor *t, float *to, size_t count) {
    if (fseeko(f->file, (off_t)(f->data_at + t->begin), SEEK_SET) != 0)
        return gs_fail(GS_E_FILE, "cannot read %s: %s", f->path, strerror(errno));
    if (t->type == TENSOR_F32) return tensor_file_read(f, to, count * sizeof *to);
    uint16_t *half;
    GS_TRY(GS_NEW(half, count, "%zu numbers of %s", count, f->path));
    gs_status st = tensor_file_read(f, half, count * sizeof *half);
    if (st == GS_OK) gs_wire_widen(t->type == TENSOR_F16 ? GS_WIRE_F16 : GS_WIRE_BF16, to, half, count);
    free(half);
    return st;
}

/* *out (rows, columns) = w (columns, rows) transposed; free it. */
static gs_status transpose(const float *w, size_t rows, size_t columns, float **out) {
    GS_TRY(GS_NEW(*out, rows * columns, "%zu transposed numbers", rows * columns));
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < columns; c++) (*out)[r * columns + c] = w[c * rows + r];
    return GS_OK;
}

/* Fails if the file's output layer differs from the embedding, which a tied model cannot represent. */
static gs_status check_tied_output(tensor_file *f, const match *m, const float *table) {
    const file_tensor *t = match_tied_output(m);
    const size_t count = m->model->param[0]->count;
    if (!t) return GS_OK;
    float *output;
    GS_TRY(GS_NEW(output, count, "%zu numbers of %s", count, f->path));
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

/* Copy tensor t to parameter i in `all`, an array laid out like the weights. */
static gs_status read_parameter(const match *m, tensor_file *f, const file_tensor *t, int i, float *all) {
    const gs_param *p = m->model->param[i];
    float *turned;
    GS_TRY(read_values(f, t, all + p->at, p->count));
    if (!m->name[i].transposed) return GS_OK;
    GS_TRY(transpose(all + p->at, (size_t)p->dims[0], (size_t)p->dims[1], &turned));
    memcpy(all + p->at, turned, p->count * sizeof *all);
    free(turned);
    return GS_OK;
}

/* Check the file, and load it unless host is NULL. */
static gs_status load(tensor_file *f, const match *m, float *host) {
    const gs_model *model = m->model;
    GS_TRY(match_check(m));
    for (int i = 0; host && i < model->saved_count; i++)
        GS_TRY(read_parameter(m, f, match_find(m, m->name[i].text), i, host));
    return host && model->saved_count > 0 ? check_tied_output(f, m, host + model->param[0]->at) : GS_OK;
}

/* ---- a run's state ---- */

/* Read the part of vector v for parameter i, which is always stored as f32. */
static gs_status read_extra(const match *m, tensor_file *f, const gs_extra_tensors *b, int v, int i) {
    char name[GS_EXTRA_NAME];
    extra_name(b->name[v], m->name[i].text, name);
    const file_tensor *t = NULL;
    for (size_t k = 0; k < f->extras && !t; k++)
        if (strcmp(f->extra[k].name, name) == 0) t = &f->extra[k];
    if (t && t->type != TENSOR_F32)
        return gs_fail(GS_E_FORMAT, "%s: %s is %s; wanted F32", f->path, name, gs_printable(t->dtype));
    GS_TRY(check_tensor(m, i, name, t));
    return read_parameter(m, f, t, i, b->vector[v]);
}

static gs_status read_all_extra(const match *m, tensor_file *f, const gs_extra_tensors *b) {
    const size_t wanted = (size_t)b->count * (size_t)m->model->param_count;
    for (int v = 0; v < b->count; v++)
        for (int i = 0; i < m->model->param_count; i++) GS_TRY(read_extra(m, f, b, v, i));
    if (f->extras == wanted) return GS_OK;
    return gs_fail(GS_E_SHAPE, "%s has %zu tensors of an optimiser's state; wanted %zu", f->path, f->extras,
                   wanted);
}

/* Read the weights into `host`, or a run's state. */
static gs_status read_file(const char *path, const gs_model *model, float *host, const gs_extra_tensors *b) {
    tensor_file f;
    match m = {0};
    gs_status st = tensor_file_open(path, &f);
    if (st == GS_OK) st = match_begin(&m, &f, model);
    if (st == GS_OK) st = b ? read_all_extra(&m, &f, b) : load(&f, &m, host);
    free(m.name);
    tensor_file_close(&f);
    return st;
}

gs_status gs_safetensors_load(const char *path, const gs_model *model, float *host) {
    return read_file(path, model, host, NULL);
}

gs_status gs_safetensors_check(const char *path, const gs_model *model) {
    return read_file(path, model, NULL, NULL);
}

gs_status gs_safetensors_load_extra(const char *path, const gs_model *model, const gs_extra_tensors *b) {
    return read_file(path, model, NULL, b);
}

/* ---- save ---- */

/* Write "0.1" or "0.1,0.2,0.3". Nine digits suffice to read back the same float. */
static void print_numbers(const gs_by_channel *x, char *text, size_t size) {
    *text = '\0';
    for (int c = 0; c < x->count; c++) gs_append(text, size, "%s%.9g", c ? "," : "", (double)x->of[c]);
}

static bool add_vocabulary(cJSON *metadata, const gs_vocabulary *v) {
    char *vocabulary = NULL, *merges = NULL;
    if (!v) return true;
    bool ok = cJSON_AddStringToObject(metadata, "tokens", gs_tokens_name(v->kind)) != NULL;
    if (v->kind == GS_TOKENS_BYTES) return ok;
    if (v->kind == GS_TOKENS_BPE)
        ok = ok && gs_bpe_texts(v->bpe, &vocabulary, &merges) == GS_OK;
    else
        vocabulary = text_of_characters(v);
    ok = ok && vocabulary && cJSON_AddStringToObject(metadata, "vocabulary", vocabulary) &&
         (!merges || cJSON_AddStringToObject(metadata, "merges", merges));
    free(vocabulary);
    free(merges);
    return ok;
}

/* Add a tensor whose data begin at byte *at. */
static bool add_tensor(cJSON *header, const char *name, const gs_param *p, double *at) {
    const double begin = *at, end = *at += 4.0 * (double)p->count;
    int dims[4];
    match_dims(p, p->transposed, dims);
    cJSON *tensor = cJSON_AddObjectToObject(header, name);
    return cJSON_AddStringToObject(tensor, "dtype", "F32") &&
           cJSON_AddItemToObject(tensor, "shape", cJSON_CreateIntArray(dims, p->ndim)) &&
           cJSON_AddItemToObject(tensor, "data_offsets", cJSON_CreateDoubleArray((double[]){begin, end}, 2));
}

/* The header's text, padded with spaces so that the data begin at a multiple of 8; NULL: out of memory. */
static char *header_text(const gs_model *model, const gs_extra_tensors *extra) {
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

    if (ok && extra->about) ok = cJSON_AddStringToObject(metadata, STATE_KEY, extra->about) != NULL;

    double at = 0;
    for (int i = 0; ok && i < model->saved_count; i++)
        ok = add_tensor(header, model->param[i]->name, model->param[i], &at);
    for (int v = 0; ok && v < extra->count; v++)
        for (int i = 0; ok && i < model->param_count; i++) {
            char name[GS_EXTRA_NAME];
            extra_name(extra->name[v], model->param[i]->name, name);
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

/* Where `put` writes: the file, and the hash, if any. */
typedef struct sink {
    FILE *file;
    struct sha256_ctx *hash;
    uint64_t bytes;
} sink;

/* gs_file_writer_commit detects failed writes. */
static void put(sink *s, const void *data, size_t bytes) {
    if (s->hash) sha256_update(s->hash, bytes, data);
    s->bytes += bytes;
    fwrite(data, 1, bytes, s->file);
}

static gs_status write_values(sink *s, const gs_model *model, int count, const float *host) {
    for (int i = 0; i < count; i++) {
        const gs_param *p = model->param[i];
        float *turned = NULL;
        if (p->transposed) GS_TRY(transpose(host + p->at, (size_t)p->dims[1], (size_t)p->dims[0], &turned));
        put(s, turned ? turned : host + p->at, p->count * sizeof *host);
        free(turned);
    }
    return GS_OK;
}

static gs_status write_all(sink *s, const gs_model *model, const char *header, const float *host,
                           const gs_extra_tensors *extra) {
    const uint64_t length = strlen(header);
    put(s, &length, sizeof length);
    put(s, header, length);
    GS_TRY(write_values(s, model, model->saved_count, host));
    for (int v = 0; v < extra->count; v++)
        GS_TRY(write_values(s, model, model->param_count, extra->vector[v]));
    return GS_OK;
}

gs_status gs_safetensors_save_extra(const char *path, const gs_model *model, const float *host,
                                    const gs_extra_tensors *extra) {
    char *header = header_text(model, extra);
    if (!header) return gs_fail(GS_E_MEMORY, "cannot write %s: %s", path, strerror(ENOMEM));
    gs_file_writer w;
    struct sha256_ctx hash;
    gs_status st = gs_file_writer_open(path, &w);
    sink s = {w.file, extra->written ? &hash : NULL, 0};
    sha256_init(&hash);
    if (st == GS_OK) st = write_all(&s, model, header, host, extra);
    if (st == GS_OK)
        st = gs_file_writer_commit(&w);
    else
        gs_file_writer_discard(&w);
    if (st == GS_OK && extra->written) {
        extra->written->bytes = s.bytes;
        gs_sha256_end(&hash, extra->written->sha256);
    }
    free(header);
    return st;
}

gs_status gs_safetensors_save(const char *path, const gs_model *model, const float *host) {
    const gs_extra_tensors nothing = {0};
    return gs_safetensors_save_extra(path, model, host, &nothing);
}
