#include "data/vocabulary.h"

#include <stdlib.h>
#include <string.h>
#include "core/text.h"

enum { CODES = 0x110000 /* code points in Unicode */, WORD = 32, LONGEST = 4 /* bytes of a character */ };

const char *gs_tokens_name(gs_tokens kind) {
    return kind == GS_TOKENS_BPE ? "bpe" : kind == GS_TOKENS_BYTES ? "bytes" : "chars";
}

const char *gs_tokens_word(gs_tokens kind, size_t count) {
    if (kind == GS_TOKENS_BPE) return count == 1 ? "token" : "tokens";
    if (kind == GS_TOKENS_BYTES) return count == 1 ? "byte" : "bytes";
    return count == 1 ? "character" : "characters";
}

void gs_vocabulary_free(gs_vocabulary *v) {
    free(v->character);
    gs_bpe_free(v->bpe);
    *v = (gs_vocabulary){0};
}

gs_status gs_vocabulary_copy(const gs_vocabulary *v, gs_vocabulary *out) {
    const size_t bytes = (size_t)v->size * sizeof *v->character;
    *out = *v;
    gs_bpe_share(v->bpe);
    if (!v->character) return GS_OK;
    out->character = malloc(bytes);
    if (!out->character) return gs_fail(GS_E_MEMORY, "no memory for %d characters", v->size);
    memcpy(out->character, v->character, bytes);
    return GS_OK;
}

bool gs_vocabulary_same(const gs_vocabulary *a, const gs_vocabulary *b) {
    if (a->kind != b->kind || a->size != b->size) return false;
    if (a->bpe) return gs_bpe_same(a->bpe, b->bpe);
    return !a->character || memcmp(a->character, b->character, (size_t)a->size * sizeof *a->character) == 0;
}

/* ---- characters ---- */

static size_t line_of(const char *text, size_t at) {
    size_t line = 1;
    for (size_t i = 0; i < at; i++) line += text[i] == '\n';
    return line;
}

/* Read the character at `at`. Messages count bytes and lines from 1 and end with `advice`. */
static gs_status read_character(const char *text, size_t at, const char *where, const char *advice,
                                uint32_t *code, size_t *length) {
    *length = (size_t)gs_utf8_read(text + at, code);
    if (*length > 0 && *code > 0) return GS_OK;
    if (*length > 0)
        return gs_fail(GS_E_FORMAT, "%s: byte %zu (line %zu) is 0, which no text has%s", where, at + 1,
                       line_of(text, at), advice);
    return gs_fail(GS_E_FORMAT,
                   "%s: byte %zu (line %zu) is 0x%02x, which begins no whole character of UTF-8%s", where,
                   at + 1, line_of(text, at), (unsigned char)text[at], advice);
}

/* `seen` has one bit per code point. */
static bool is_seen(const uint32_t *seen, uint32_t code) {
    return seen[code / WORD] >> code % WORD & 1;
}

static gs_status characters_of(const char *text, size_t bytes, const char *where, uint32_t *seen,
                               gs_vocabulary *v) {
    for (size_t at = 0, length; at < bytes; at += length) {
        uint32_t code;
        GS_TRY(read_character(text, at, where, "; --tokens bytes takes any file", &code, &length));
        v->size += !is_seen(seen, code);
        seen[code / WORD] |= 1u << code % WORD;
    }
    if (v->size > GS_VOCABULARY_MOST)
        return gs_fail(GS_E_FORMAT,
                       "%s has %d different characters; at most %d can be tokens (--tokens bytes has 256)",
                       where, v->size, GS_VOCABULARY_MOST);
    GS_TRY(GS_NEW(v->character, v->size, "%d characters of %s", v->size, where));
    for (uint32_t code = 0, count = 0; count < (uint32_t)v->size; code++)
        if (is_seen(seen, code)) v->character[count++] = code;
    return GS_OK;
}

gs_status gs_vocabulary_of(gs_tokens kind, const char *text, size_t bytes, const char *where,
                           gs_vocabulary *out) {
    *out = (gs_vocabulary){.kind = kind};
    if (bytes == 0) return gs_fail(GS_E_FORMAT, "%s is empty: it has no text", where);
    if (kind == GS_TOKENS_BYTES) {
        out->size = GS_VOCABULARY_BYTES;
        return GS_OK;
    }
    if (kind == GS_TOKENS_BPE)
        return gs_fail(GS_E_USAGE,
                       "%s: --tokens bpe needs a list of byte pairs: --tokenizer DIR, with vocab.json and "
                       "merges.txt in it",
                       where);
    out->kind = GS_TOKENS_CHARS;
    uint32_t *seen = calloc(CODES / WORD, sizeof *seen);
    if (!seen) return gs_fail(GS_E_MEMORY, "%s: no memory for its characters", where);
    const gs_status status = characters_of(text, bytes, where, seen, out);
    free(seen);
    return status;
}

gs_status gs_vocabulary_load(const char *folder, gs_vocabulary *out) {
    *out = (gs_vocabulary){.kind = GS_TOKENS_BPE};
    GS_TRY(gs_bpe_load(folder, &out->bpe));
    out->size = gs_bpe_size(out->bpe);
    return GS_OK;
}

/* ---- text -> tokens ---- */

static gs_status not_seen(const gs_vocabulary *v, const char *text, size_t at, const char *where,
                          uint32_t code) {
    char name[5];
    gs_utf8_write(code, name);
    return gs_fail(GS_E_FORMAT,
                   "%s: byte %zu (line %zu) is the character '%s' (U+%04X), which is not among the %d "
                   "that the model has seen",
                   where, at + 1, line_of(text, at), gs_printable(name), code, v->size);
}

/* The tokens of a text of characters. For byte pairs, only check that the text is valid. */
static gs_status encode_characters(const gs_vocabulary *v, const char *text, size_t bytes, const char *where,
                                   uint16_t *tokens, size_t *count) {
    gs_status status = GS_OK;
    const size_t codes = v->bpe ? 0 : (size_t)v->character[v->size - 1] + 1;
    uint32_t *token = calloc(codes + 1, sizeof *token), code; /* by character: token + 1; 0: none */
    if (!token) return gs_fail(GS_E_MEMORY, "%s: no memory for the table of %d characters", where, v->size);
    for (int i = 0; codes && i < v->size; i++) token[v->character[i]] = (uint32_t)i + 1;
    for (size_t at = 0, length; status == GS_OK && at < bytes; at += length) {
        status = read_character(text, at, where, "", &code, &length);
        if (status != GS_OK || v->bpe) continue;
        if (code >= codes || !token[code])
            status = not_seen(v, text, at, where, code);
        else
            tokens[(*count)++] = (uint16_t)(token[code] - 1);
    }
    free(token);
    return status;
}

gs_status gs_vocabulary_encode(const gs_vocabulary *v, const char *text, size_t bytes, const char *where,
                               uint16_t **tokens, size_t *count) {
    gs_status status = GS_OK;
    *count = 0;
    *tokens = bytes < SIZE_MAX / 2 ? malloc(bytes * sizeof **tokens + 1) : NULL;
    if (!*tokens) return gs_fail(GS_E_MEMORY, "%s: no memory for the tokens of %zu bytes", where, bytes);
    if (v->kind == GS_TOKENS_BYTES)
        for (; *count < bytes; ++*count) (*tokens)[*count] = (unsigned char)text[*count];
    else
        status = encode_characters(v, text, bytes, where, *tokens, count);
    if (status == GS_OK && v->bpe)
        status = gs_context(gs_bpe_encode(v->bpe, text, bytes, *tokens, count), "%s", where);
    if (status == GS_OK) return GS_OK;
    free(*tokens);
    *tokens = NULL;
    return status;
}

/* ---- tokens -> text ---- */

const char *gs_vocabulary_piece(const gs_vocabulary *v, int token, char room[LONGEST + 1], size_t *bytes) {
    if (token < 0 || token >= v->size) gs_bug("gs_vocabulary: token %d of %d", token, v->size);
    if (v->bpe) return gs_bpe_piece(v->bpe, token, bytes);
    *bytes = v->character ? (size_t)gs_utf8_write(v->character[token], room) : 1;
    if (!v->character) room[0] = (char)token;
    return room;
}

int gs_vocabulary_start(const gs_vocabulary *v) {
    const int end = v->bpe ? gs_bpe_end(v->bpe) : -1;
    if (end >= 0) return end;
    for (int i = 0; i < v->size; i++) {
        char room[LONGEST + 1];
        size_t bytes;
        if (*gs_vocabulary_piece(v, i, room, &bytes) == '\n' && bytes == 1) return i;
    }
    return 0;
}
