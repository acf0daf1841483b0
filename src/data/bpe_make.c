/* Byte pairs are made of their tokens and merges, and written again. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "core/text.h"
#include "data/bpe_parts.h"

/* ---- the alphabet of files ---- */

/* Those that cannot be seen: 0 to 32, 127 to 160, 173. They follow each other from U+0100 on. */
enum { SPACE = ' ', DELETE = 127, NO_BREAK = 160, HYPHEN = 173, LAST = 255, FIRST_MOVED = 256 };
enum { DELETE_MOVED = FIRST_MOVED + SPACE + 1, HYPHEN_MOVED = DELETE_MOVED + NO_BREAK - DELETE + 1 };

uint32_t gs_bpe_character(unsigned char byte) {
    if (byte <= SPACE) return FIRST_MOVED + byte;
    if (byte >= DELETE && byte <= NO_BREAK) return DELETE_MOVED + byte - DELETE;
    return byte == HYPHEN ? HYPHEN_MOVED : byte;
}

int gs_bpe_byte(uint32_t character) {
    const int c = character <= HYPHEN_MOVED ? (int)character : 0;
    if (c == HYPHEN_MOVED) return HYPHEN;
    if (c >= DELETE_MOVED) return DELETE + c - DELETE_MOVED;
    if (c >= FIRST_MOVED) return c - FIRST_MOVED;
    return gs_bpe_character((unsigned char)c) == character ? c : GS_BPE_NONE;
}

/* ---- tables ---- */

/* The least number of bits for a table at most half full. */
static int bits_for(size_t count) {
    int bits = 8;
    while (((size_t)1 << bits) < 2 * count) bits++;
    return bits;
}

static uint32_t *slot_of(const gs_bpe_maker *m, const char *text, size_t bytes) {
    uint32_t hash = 2166136261u; /* FNV-1a */
    for (size_t i = 0; i < bytes; i++) hash = (hash ^ (unsigned char)text[i]) * 16777619u;
    uint32_t at = hash * 0x9e3779b1u >> (32 - m->bits);
    for (; m->found[at]; at = (at + 1) & ((1u << m->bits) - 1)) {
        const char *token = m->token[m->found[at] - 1];
        if (strnlen(token, bytes + 1) == bytes && memcmp(token, text, bytes) == 0) break;
    }
    return &m->found[at];
}

static int find(const gs_bpe_maker *m, const char *text, size_t bytes) {
    return (int)*slot_of(m, text, bytes) - 1;
}

/* ---- tokens ---- */

/* Token i as bytes, behind those of the tokens before it. */
static gs_status add_token(gs_bpe_maker *m, const char *where, size_t i) {
    gs_bpe *b = m->bpe;
    const char *token = m->token[i];
    uint32_t *slot = slot_of(m, token, strlen(token)), used = b->begin[i];
    if (!*token) return gs_fail(GS_E_FORMAT, "%s: token %zu is empty", where, i);
    if (*slot)
        return gs_fail(GS_E_FORMAT, "%s: tokens %u and %zu are both '%s'", where, *slot - 1, i,
                       gs_printable(token));
    *slot = (uint32_t)i + 1;
    for (const char *at = token; *at;) {
        uint32_t code;
        const int length = gs_utf8_read(at, &code), byte = length ? gs_bpe_byte(code) : GS_BPE_NONE;
        if (byte == GS_BPE_NONE)
            return gs_fail(
                GS_E_FORMAT,
                "%s: token %zu, '%s', has a character that stands for no byte (at its byte %td); wanted "
                "byte pairs in GPT-2's alphabet, where Ġ is the space",
                where, i, gs_printable(token), at - token);
        b->bytes[used++] = (char)byte;
        at += length;
    }
    b->begin[i + 1] = used;
    return GS_OK;
}

static gs_status add_tokens(gs_bpe_maker *m, const char *where) {
    gs_bpe *b = m->bpe;
    for (size_t i = 0; i < (size_t)b->size; i++) GS_TRY(add_token(m, where, i));
    for (unsigned byte = 0; byte <= LAST; byte++) {
        char text[5];
        const int length = gs_utf8_write(gs_bpe_character((unsigned char)byte), text);
        const int token = find(m, text, (size_t)length);
        if (token < 0)
            return gs_fail(GS_E_FORMAT,
                           "%s: no token is byte 0x%02x ('%s'); wanted one for each of the 256 bytes", where,
                           byte, text);
        b->of_byte[byte] = (uint16_t)token;
    }
    b->end = find(m, GS_BPE_END, sizeof GS_BPE_END - 1);
    return GS_OK;
}

gs_status gs_bpe_maker_begin(gs_bpe_maker *m, const char *where, const char *const *token, size_t size,
                             size_t merges) {
    size_t bytes = 0;
    *m = (gs_bpe_maker){.token = token, .bits = bits_for(size), .merges_most = merges};
    if (size < GS_BPE_LEAST || size > GS_BPE_MOST)
        return gs_fail(GS_E_FORMAT, "%s has %zu token%s; wanted %d to %d", where, size, gs_s(size),
                       GS_BPE_LEAST, GS_BPE_MOST);
    for (size_t i = 0; i < size; i++) bytes += strlen(token[i]);
    gs_bpe *b = m->bpe = calloc(1, sizeof *b);
    m->found = calloc((size_t)1 << m->bits, sizeof *m->found);
    if (b) {
        *b = (gs_bpe){.users = 1, .size = (int)size, .bits = bits_for(merges)};
        b->bytes = malloc(bytes + 1);
        b->begin = calloc(size + 1, sizeof *b->begin);
        b->merge = calloc(merges + 1, sizeof *b->merge);
        b->pair = calloc((size_t)1 << b->bits, sizeof *b->pair);
        b->words = gs_bpe_words_create();
    }
    if (!b || !m->found || !b->bytes || !b->begin || !b->merge || !b->pair || !b->words)
        return gs_fail(GS_E_MEMORY, "%s: no memory for %zu tokens and %zu merges", where, size, merges);
    return add_tokens(m, where);
}

/* ---- merges ---- */

static gs_status no_token(const char *where, size_t line, const char *what, const char *text, size_t bytes) {
    char name[96];
    snprintf(name, sizeof name, "%.*s", (int)(bytes < sizeof name ? bytes : sizeof name - 1), text);
    return gs_fail(GS_E_FORMAT, "%s: line %zu: %s '%s', which is not in the vocabulary", where, line, what,
                   gs_printable(name));
}

/* The token that both make. */
static int find_joined(const gs_bpe_maker *m, int left, int right, char *text, size_t size) {
    const int bytes = snprintf(text, size, "%s%s", m->token[left], m->token[right]);
    return bytes > 0 && (size_t)bytes < size ? find(m, text, (size_t)bytes) : GS_BPE_NONE;
}

gs_status gs_bpe_maker_merge(gs_bpe_maker *m, const char *where, size_t line, const char *left,
                             size_t left_bytes, const char *right, size_t right_bytes) {
    gs_bpe *b = m->bpe;
    const int l = find(m, left, left_bytes), r = find(m, right, right_bytes);
    if (l < 0) return no_token(where, line, "it joins", left, left_bytes);
    if (r < 0) return no_token(where, line, "it joins", right, right_bytes);
    const size_t size = left_bytes + right_bytes + 1;
    char *joined = malloc(size);
    if (!joined || b->merges == m->merges_most) {
        free(joined);
        return gs_fail(GS_E_MEMORY, "%s: no memory for the merge of line %zu", where, line);
    }
    const int made = find_joined(m, l, r, joined, size);
    const gs_status status = made < 0 ? no_token(where, line, "it makes", joined, size - 1) : GS_OK;
    free(joined);
    GS_TRY(status);
    if (gs_bpe_rank(b, l, r) != GS_BPE_NONE)
        return gs_fail(GS_E_FORMAT, "%s: line %zu joins '%s' and '%s', as an earlier line does", where, line,
                       gs_printable(m->token[l]), gs_printable(m->token[r]));
    uint32_t at = gs_bpe_slot(b, l, r);
    while (b->pair[at]) at = (at + 1) & ((1u << b->bits) - 1);
    b->merge[b->merges++] = (gs_bpe_merge){(uint16_t)l, (uint16_t)r, (uint16_t)made};
    b->pair[at] = b->merges;
    return GS_OK;
}

gs_status gs_bpe_maker_end(gs_bpe_maker *m, gs_status status, gs_bpe **out) {
    free(m->found);
    *out = status == GS_OK ? m->bpe : NULL;
    if (status != GS_OK) gs_bpe_free(m->bpe);
    return status;
}

/* ---- owners ---- */

gs_bpe *gs_bpe_share(gs_bpe *b) {
    if (b) __atomic_fetch_add(&b->users, 1, __ATOMIC_RELAXED);
    return b;
}

void gs_bpe_free(gs_bpe *b) {
    if (!b || __atomic_sub_fetch(&b->users, 1, __ATOMIC_ACQ_REL) > 0) return;
    gs_bpe_words_free(b->words);
    free(b->bytes);
    free(b->begin);
    free(b->merge);
    free(b->pair);
    free(b);
}

/* ---- what is asked of one ---- */

int gs_bpe_size(const gs_bpe *b) {
    return b->size;
}

int gs_bpe_end(const gs_bpe *b) {
    return b->end;
}

const char *gs_bpe_piece(const gs_bpe *b, int token, size_t *bytes) {
    if (token < 0 || token >= b->size) gs_bug("gs_bpe: token %d of %d", token, b->size);
    *bytes = b->begin[token + 1] - b->begin[token];
    return b->bytes + b->begin[token];
}

bool gs_bpe_same(const gs_bpe *a, const gs_bpe *b) {
    if (a == b) return true;
    if (a->size != b->size || a->merges != b->merges) return false;
    return memcmp(a->begin, b->begin, ((size_t)a->size + 1) * sizeof *a->begin) == 0 &&
           memcmp(a->bytes, b->bytes, a->begin[a->size]) == 0 &&
           memcmp(a->merge, b->merge, a->merges * sizeof *a->merge) == 0;
}

/* ---- as texts ---- */

/* A token in the alphabet of files, and `after`. Returns the place behind. */
static char *write_token(const gs_bpe *b, int token, char after, char *to) {
    for (uint32_t i = b->begin[token]; i < b->begin[token + 1]; i++)
        to += gs_utf8_write(gs_bpe_character((unsigned char)b->bytes[i]), to);
    *to = after;
    return to + 1;
}

static size_t token_room(const gs_bpe *b, int token) {
    return 2 * (size_t)(b->begin[token + 1] - b->begin[token]) +
           1; /* no character of the alphabet has 3 bytes */
}

gs_status gs_bpe_texts(const gs_bpe *b, char **tokens, char **merges) {
    size_t room = 0, merges_room = 1;
    for (int i = 0; i < b->size; i++) room += token_room(b, i);
    for (uint32_t i = 0; i < b->merges; i++)
        merges_room += token_room(b, b->merge[i].left) + token_room(b, b->merge[i].right);
    /* gs_utf8_write puts a 0 behind each character */
    char *to = *tokens = malloc(room + 1), *line = *merges = malloc(merges_room + 1);
    if (!to || !line) {
        free(to);
        free(line);
        *tokens = *merges = NULL;
        return gs_fail(GS_E_MEMORY, "no memory for the text of %d tokens", b->size);
    }
    for (int i = 0; i < b->size; i++) to = write_token(b, i, i + 1 < b->size ? ' ' : '\0', to);
    for (uint32_t i = 0; i < b->merges; i++) {
        line = write_token(b, b->merge[i].left, ' ', line);
        line = write_token(b, b->merge[i].right, '\n', line);
    }
    *line = '\0';
    return GS_OK;
}
