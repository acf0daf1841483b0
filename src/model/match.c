#include "model/match.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "core/text.h"

void gs_match_dims(const gs_param *p, bool transposed, int dims[4]) {
    for (int d = 0; d < p->ndim; d++) dims[d] = p->dims[transposed ? p->ndim - 1 - d : d];
}

void gs_match_shape(const gs_param *p, bool transposed, char *text, size_t size) {
    int dims[4];
    gs_match_dims(p, transposed, dims);
    *text = '\0';
    for (int d = 0; d < p->ndim; d++)
        gs_append(text, size, "%s%d%s", d ? "," : "(", dims[d], d + 1 < p->ndim ? "" : ")");
}

/* Hugging Face's output layer has a name of its own even where its weight is the embedding's. Its prefix is where the
 * others' begins: "_orig_mod.lm_head.weight" beside "_orig_mod.transformer.wte.weight". */
static const char OUTPUT[] = "lm_head.weight", TABLE[] = "wte.weight";

/* How long the prefix is that a tensor's name has before this name of the model; -1: it does not end with that. */
static int length_in_front(const char *name, const char *of) {
    size_t length = strlen(name), end = strlen(of);
    if (length < end || strcmp(name + length - end, of) != 0) return -1;
    return length == end || name[length - end - 1] == '.' ? (int)(length - end) : -1;
}

/* Is `full` the name in the file for `name`? */
static bool is_named(const char *full, gs_prefix before, const char *name) {
    const int length = length_in_front(full, name);
    if (length < 0 || (size_t)length > before.length || strncmp(full, before.text, (size_t)length) != 0)
        return false;
    return (size_t)length == before.length || strcmp(name, OUTPUT) == 0;
}

/* Of tensors that share their memory safetensors.torch.save_model writes one; the metadata name it for each other. */
static const gs_tensor *find_tensor(const gs_tensor_file *f, gs_prefix before, const char *name) {
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

static bool all_begin_with(const gs_tensor_file *f, gs_prefix before) {
    for (size_t i = 0; i < f->count; i++)
        if (strncmp(f->tensors[i].name, before.text, before.length) != 0 &&
            !is_named(f->tensors[i].name, before, OUTPUT))
            return false;
    return true;
}

/* The prefix of all tensors: the shortest one after which a tensor has the name of the first parameter. False: there is
 * none. */
static bool find_prefix(const gs_tensor_file *f, const char *first, gs_prefix *best) {
    *best = (gs_prefix){"", 0};
    bool found = false;
    for (size_t i = 0; i < f->count; i++) {
        const char *name = f->tensors[i].name;
        int length = length_in_front(name, first);
        gs_prefix here = {name, (size_t)length};
        if (length < 0 || !all_begin_with(f, here)) continue;
        if (!found || here.length < best->length) *best = here;
        found = true;
    }
    return found;
}

static bool shape_is(const gs_tensor *t, const gs_param *p, bool transposed) {
    char wanted[64], found[200];
    gs_match_shape(p, transposed, wanted, sizeof wanted);
    return strcmp(gs_tensor_shape(t->shape, found, sizeof found), wanted) == 0;
}

/* nanoGPT has GPT-2's names, but its linear layers are (out, in) as ours. The first c_attn tells, (3n,n) or (n,3n): the
 * others may be square. */
static void find_transposed(gs_match *m) {
    bool as_ours = false;
    for (int i = 0; i < m->model->saved_count; i++) {
        const gs_tensor *t =
            strcmp(m->name[i].text, "h.0.attn.c_attn.weight") == 0 ? gs_match_find(m, m->name[i].text) : NULL;
        if (t) as_ours = shape_is(t, m->model->param[i], false);
    }
    for (int i = 0; i < m->model->saved_count && as_ours; i++) m->name[i].transposed = false;
}

/* Which names has the file? The model's own, unless the first parameter is there under another one alone. GPT-2's first
 * one may be there as the output layer; then the second one tells. */
gs_status gs_match_begin(gs_match *m, const gs_tensor_file *f, const gs_model *model) {
    const int count = model->saved_count;
    *m = (gs_match){f, model, calloc((size_t)count + 1, sizeof *m->name), {"", 0}};
    if (!m->name) return gs_fail(GS_E_MEMORY, "%s: no memory for the names of %d tensors", f->path, count);
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

static bool is_parameter(const gs_match *m, const char *name) {
    for (int i = 0; i < m->model->saved_count; i++)
        if (strcmp(m->name[i].text, name) == 0) return true;
    return false;
}

static bool ends_with(const char *name, const char *end) {
    const size_t length = strlen(name), most = strlen(end);
    return length >= most && strcmp(name + length - most, end) == 0;
}

static bool is_gpt2(const gs_match *m) {
    return m->model->saved_count > 0 && strcmp(m->name[0].text, TABLE) == 0;
}

/* Tensors from which nothing is computed that the model does not know: how many batches PyTorch's batch_norm has seen;
 * in GPT-2, which tokens are in a token's past. */
static bool is_left_out(const gs_match *m, const char *name) {
    return ends_with(name, ".num_batches_tracked") ||
           (is_gpt2(m) && (ends_with(name, ".attn.bias") || ends_with(name, ".attn.masked_bias")));
}

/* "(3,4)", or of a sequence's places a table with more rows. */
static bool shape_fits(const gs_param *p, const gs_tensor *t, const char *wanted) {
    char found[200];
    if (strcmp(gs_tensor_shape(t->shape, found, sizeof found), wanted) == 0) return true;
    const cJSON *rows = cJSON_GetArrayItem(t->shape, 0), *width = cJSON_GetArrayItem(t->shape, 1);
    return p->longer && cJSON_GetArraySize(t->shape) == 2 && rows->valuedouble > p->dims[0] &&
           width->valuedouble == p->dims[1];
}

const gs_tensor *gs_match_tied_output(const gs_match *m) {
    return is_gpt2(m) && !is_parameter(m, OUTPUT) ? find_tensor(m->file, m->before, OUTPUT) : NULL;
}

/* The same for a tensor and any of the model's parameters, whose shape it must have too. */
static int front_of(const gs_match *m, const gs_tensor *t) {
    int length = -1;
    for (int i = 0; i < m->model->saved_count && length < 0; i++) {
        char wanted[64];
        gs_match_shape(m->model->param[i], m->name[i].transposed, wanted, sizeof wanted);
        if (shape_fits(m->model->param[i], t, wanted)) length = length_in_front(t->name, m->name[i].text);
    }
    return length;
}

/* "model.1.weight", "module.1.bias": GS_E_SHAPE. Not where a tensor is none of the model's: the file is of another. */
static gs_status check_fronts(const gs_match *m) {
    const gs_tensor_file *f = m->file;
    for (size_t i = 0; i < f->count; i++)
        if (front_of(m, &f->tensors[i]) < 0) return GS_OK;
    const char *first = NULL;
    int length = 0;
    for (size_t i = 0; i < f->count; i++) {
        const char *name = f->tensors[i].name;
        int here = front_of(m, &f->tensors[i]);
        bool same = first && here == length && strncmp(first, name, (size_t)length) == 0;
        if (same) continue;
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

static gs_status missing(const gs_match *m, const char *name, const char *wanted) {
    const gs_tensor_file *f = m->file;
    char others[300] = "", found[200];
    GS_TRY(check_fronts(m));
    if (f->count > 0)
        snprintf(others, sizeof others, "; what is there begins with %.80s %s",
                 gs_printable(f->tensors[0].name), gs_tensor_shape(f->tensors[0].shape, found, sizeof found));
    return gs_fail(GS_E_SHAPE, "%s is missing in %s; the model has %s%s", name, f->path, wanted, others);
}

/* Does tensor t (NULL: there is none) fit parameter i? */
static gs_status check_tensor(const gs_match *m, int i, const gs_tensor *t) {
    const gs_param *p = m->model->param[i];
    char wanted[64], found[200];
    gs_match_shape(p, m->name[i].transposed, wanted, sizeof wanted);
    if (!t) return missing(m, m->name[i].text, wanted);
    if (!shape_fits(p, t, wanted))
        return gs_fail(GS_E_SHAPE, "%s is %s in %s; the model has %s", gs_printable(t->name),
                       gs_tensor_shape(t->shape, found, sizeof found), m->file->path, wanted);
    if (t->type == GS_TENSOR_OTHER)
        return gs_fail(GS_E_FORMAT, "%s: %s is %s; wanted F32, F16 or BF16", m->file->path,
                       gs_printable(t->name), gs_printable(t->dtype));
    return GS_OK;
}

gs_status gs_match_check(const gs_match *m) {
    const gs_tensor_file *f = m->file;
    char found[200];
    for (int i = 0; i < m->model->saved_count; i++) {
        GS_TRY(check_tensor(m, i, gs_match_find(m, m->name[i].text)));
    }
    for (size_t i = 0; i < f->count; i++) {
        const gs_tensor *t = &f->tensors[i];
        if (t == gs_match_tied_output(m)) {
            GS_TRY(check_tensor(m, 0, t));
            continue;
        }
        const char *name = is_named(t->name, m->before, OUTPUT) ? OUTPUT : t->name + m->before.length;
        if (!is_parameter(m, name) && !is_left_out(m, t->name))
            return gs_fail(GS_E_SHAPE, "%s %s is in %s, but the model has no such parameter",
                           gs_printable(t->name), gs_tensor_shape(t->shape, found, sizeof found), f->path);
    }
    return GS_OK;
}

const gs_tensor *gs_match_find(const gs_match *m, const char *name) {
    const gs_tensor *t = find_tensor(m->file, m->before, name);
    return t || strcmp(name, TABLE) != 0 ? t : gs_match_tied_output(m);
}
