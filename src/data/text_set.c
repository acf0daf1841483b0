#include "data/text_set.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "core/philox.h"
#include "io/file.h"

/* The Jargon File, from Debian's package jargon-text. */
static const char JARGON[] = "/usr/share/doc/jargon-text/jargon.txt.gz", PREFIX[] = "text:";

static bool is_jargon(const char *where) {
    return strcmp(where, "jargon") == 0;
}

bool gs_text_is_at(const char *where) {
    return is_jargon(where) || strncmp(where, PREFIX, sizeof PREFIX - 1) == 0;
}

static gs_status find_file(const char *where, const char **path) {
    *path = is_jargon(where) ? JARGON : where + sizeof PREFIX - 1;
    if (!**path) return gs_fail(GS_E_USAGE, "'%s' names no file; wanted text:FILE", where);
    if (is_jargon(where) && access(JARGON, F_OK) != 0)
        return gs_fail(GS_E_FILE,
                       "jargon is not installed (no file %s): apt-get install jargon-text, or use a text of "
                       "your own: text:FILE",
                       JARGON);
    return GS_OK;
}

/* ---- its tokens ---- */

static const char *trained_on(const gs_vocabulary *v) {
    return v->bpe ? "byte pairs" : gs_tokens_word(v->kind, 2);
}

gs_status gs_text_tokenizer(const char *folder, const gs_vocabulary *of_model, gs_vocabulary *v) {
    GS_TRY(gs_vocabulary_load(folder, v));
    if (!of_model || gs_vocabulary_same(of_model, v)) return GS_OK;
    gs_vocabulary_free(v);
    return gs_fail(GS_E_USAGE, "--tokenizer %s: the model was trained on %s%s; wanted no --tokenizer", folder,
                   of_model->bpe ? "other " : "", trained_on(of_model));
}

static gs_status make_vocabulary(const gs_text_options *o, const char *text, size_t bytes, const char *path,
                                 gs_vocabulary *v) {
    if (o->tokenizer && o->tokens != GS_TOKENS_UNSAID && o->tokens != GS_TOKENS_BPE)
        return gs_fail(GS_E_USAGE, "--tokens %s, but --tokenizer %s has byte pairs: give one of them",
                       gs_tokens_name(o->tokens), o->tokenizer);
    if (o->tokenizer) return gs_text_tokenizer(o->tokenizer, o->vocabulary, v);
    if (!o->vocabulary) return gs_vocabulary_of(o->tokens, text, bytes, path, v);
    if (o->tokens != GS_TOKENS_UNSAID && o->tokens != o->vocabulary->kind)
        return gs_fail(GS_E_USAGE, "--tokens %s: the model was trained on %s; wanted --tokens %s, or none",
                       gs_tokens_name(o->tokens), trained_on(o->vocabulary),
                       gs_tokens_name(o->vocabulary->kind));
    return gs_vocabulary_copy(o->vocabulary, v);
}

static gs_status check_length(const gs_text *t, const char *path) {
    const size_t tenth = t->count / 10, window = (size_t)t->context + 1;
    if (tenth >= window) return GS_OK;
    return gs_fail(GS_E_FORMAT,
                   "%s has %zu %s, and the last tenth, for testing, %zu; a window of --context %d needs %zu, "
                   "its last label included: wanted a longer text or a smaller --context",
                   path, t->count, gs_tokens_word(t->vocabulary.kind, t->count), tenth, t->context, window);
}

static void take_part(gs_text *t, gs_split split) {
    const size_t tenth = t->count / 10, first = split == GS_TEST ? t->count - tenth : 0;
    if (!t->token) gs_bug("take_part: a text without tokens");
    t->count = split == GS_TEST ? tenth : t->count - tenth;
    memmove(t->token, t->token + first, t->count * sizeof *t->token);
    uint16_t *smaller = realloc(t->token, t->count * sizeof *t->token);
    if (smaller) t->token = smaller;
}

static void describe(const gs_text *t, gs_split split, gs_dataset *d) {
    const size_t context = (size_t)t->context;
    /* Training windows, including the last label, must fit even if shifted by N - 1 tokens. */
    d->count = split == GS_TEST ? (t->count - 1) / context : (t->count - context) / context;
    d->shape = (gs_shape){1, 1, 1, t->context};
    d->labels_each = t->context;
    d->classes = t->vocabulary.size;
    if (t->vocabulary.kind == GS_TOKENS_BYTES)
        snprintf(d->kind, sizeof d->kind, "bytes");
    else
        snprintf(d->kind, sizeof d->kind, "%d different %s", t->vocabulary.size,
                 gs_tokens_word(t->vocabulary.kind, (size_t)t->vocabulary.size));
}

static gs_status load(const char *path, gs_split split, const gs_text_options *o, gs_text *t) {
    char *text;
    size_t bytes;
    t->context = o->context > 0 ? o->context : GS_CONTEXT;
    GS_TRY(gs_file_unzip(path, GS_TEXT_MOST, &text, &bytes));
    gs_status status = gs_foreign_check_text(path, text, bytes);
    if (status == GS_OK) status = make_vocabulary(o, text, bytes, path, &t->vocabulary);
    if (status == GS_OK)
        status = gs_vocabulary_encode(&t->vocabulary, text, bytes, path, &t->token, &t->count);
    free(text);
    GS_TRY(gs_foreign_explain(status, path, "a text in UTF-8 (--tokens bytes takes any file)"));
    GS_TRY(check_length(t, path));
    take_part(t, split);
    return GS_OK;
}

gs_status gs_text_load(const char *where, gs_split split, const gs_text_options *o, gs_dataset *d) {
    const char *path;
    GS_TRY(find_file(where, &path));
    GS_TRY(GS_NEW(d->text, 1, "%s", where));
    GS_TRY(load(path, split, o, d->text));
    describe(d->text, split, d);
    return GS_OK;
}

void gs_text_free(gs_text *t) {
    if (!t) return;
    gs_vocabulary_free(&t->vocabulary);
    free(t->token);
    free(t);
}

/* ---- windows ---- */

int gs_text_shift(const gs_text *t, uint64_t seed, uint64_t epoch) {
    uint32_t word[4];
    gs_philox(seed, gs_stream_hi(GS_STREAM_WINDOWS, epoch), 0, word);
    return gs_random_below(word[0], t->context);
}

void gs_text_gather(const gs_text *t, int shift, const uint32_t *order, size_t first, size_t n, float *inputs,
                    int32_t *labels) {
    const size_t context = (size_t)t->context;
    for (size_t i = 0; i < n; i++) {
        const size_t window = order ? order[i] : first + i, begin = (size_t)shift + window * context;
        if (begin + context >= t->count)
            gs_bug("gs_text_gather: window %zu, shifted by %d, of %zu tokens", window, shift, t->count);
        const uint16_t *token = t->token + begin;
        for (size_t k = 0; inputs && k < context; k++) inputs[i * context + k] = (float)token[k];
        for (size_t k = 0; labels && k < context; k++) labels[i * context + k] = token[k + 1];
    }
}
