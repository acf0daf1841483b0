/* Byte pairs: reads a list of tokens and merges, and encodes and decodes a text, all compared with the definition. If
 * bit 0 of the first byte is set, the input is the rest of a vocab.json that begins with the bytes' tokens; otherwise
 * it is more tokens, merges and a text, separated by \x01. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "fuzz.h"
#include "core/text.h"
#include "data/bpe_internal.h"
#include "data/vocabulary.h"

enum { BYTES = 256, ROOM = 1 << 15 };

/* Writes the tokens of all bytes, separated by spaces or as the start of JSON. Returns the length. */
static size_t write_bytes(char *to, bool json) {
    size_t used = 0;
    for (int byte = 0; byte < BYTES; byte++) {
        char one[5];
        gs_utf8_write(gs_bpe_character((unsigned char)byte), one);
        const char *escape = json && (*one == '"' || *one == '\\') ? "\\" : "";
        used += (size_t)(json ? sprintf(to + used, "%c\"%s%s\":%d", byte ? ',' : '{', escape, one, byte)
                              : sprintf(to + used, "%s%s", byte ? " " : "", one));
    }
    return used;
}

/* Applies the earliest merge at its first occurrence until none is left. */
static size_t plainly(const gs_bpe *b, const char *word, size_t bytes, uint16_t *tokens) {
    size_t count = bytes;
    for (size_t i = 0; i < bytes; i++) tokens[i] = b->of_byte[(unsigned char)word[i]];
    for (;;) {
        size_t best = 0;
        int64_t least = b->merges;
        for (size_t i = 0; i + 1 < count; i++) {
            const int64_t rank = gs_bpe_rank(b, tokens[i], tokens[i + 1]);
            if (rank == GS_BPE_NONE || rank >= least) continue;
            least = rank;
            best = i;
        }
        if (least == b->merges) return count;
        tokens[best] = b->merge[least].made;
        memmove(tokens + best + 1, tokens + best + 2, (--count - best - 1) * sizeof *tokens);
    }
}

static void check_words(const gs_bpe *b, const char *text, size_t bytes, const uint16_t *tokens,
                        size_t count) {
    uint16_t *want = malloc(bytes * sizeof *want + 1);
    gs_bpe_walk walk;
    size_t used = 0;
    if (!want || gs_bpe_walk_begin(&walk, b->words) != GS_OK) fuzz_wrong("no memory");
    for (size_t at = 0, length; at < bytes; at += length) {
        if (gs_bpe_walk_next(&walk, text, bytes, at, &length) != GS_OK) fuzz_wrong("%s", gs_message());
        const size_t each = plainly(b, text + at, length, want);
        if (used + each > count || memcmp(tokens + used, want, each * sizeof *want) != 0)
            fuzz_wrong("other tokens at byte %zu", at);
        used += each;
    }
    if (used != count) fuzz_wrong("%zu tokens, wanted %zu", count, used);
    gs_bpe_walk_end(&walk);
    free(want);
}

static void check_text(gs_bpe *b, const char *text, size_t bytes) {
    const gs_vocabulary v = {.kind = GS_TOKENS_BPE, .size = gs_bpe_size(b), .bpe = b};
    uint16_t *tokens;
    size_t count, done = 0, length;
    if (gs_vocabulary_encode(&v, text, bytes, "the input", &tokens, &count) != GS_OK) return;
    for (size_t i = 0; i < count; i++, done += length) {
        const char *piece = gs_bpe_piece(b, tokens[i], &length);
        if (length > bytes - done || memcmp(text + done, piece, length) != 0)
            fuzz_wrong("a different text came back");
    }
    if (done != bytes) fuzz_wrong("%zu bytes came back of %zu", done, bytes);
    if (gs_bpe_end(b) < 0) check_words(b, text, bytes, tokens, count);
    free(tokens);
}

static void check_again(const gs_bpe *b) {
    char *tokens, *merges;
    gs_bpe *again;
    if (gs_bpe_texts(b, &tokens, &merges) != GS_OK) fuzz_wrong("cannot write");
    if (gs_bpe_read(tokens, merges, "its own texts", &again) != GS_OK) fuzz_wrong("%s", gs_message());
    if (!gs_bpe_same(b, again)) fuzz_wrong("a different list came back");
    gs_bpe_free(again);
    free(tokens);
    free(merges);
}

static gs_status load(fuzz_input *in, gs_bpe **b) {
    char file[ROOM];
    const size_t used = write_bytes(file, true), more = in->size < ROOM - used ? in->size : ROOM - used;
    fuzz_bytes(in, file + used, more);
    fuzz_folder("merges.txt", 1, "#version: 0.2\na b\n", 18);
    return gs_bpe_load(fuzz_folder("vocab.json", 0, file, used + more), b);
}

static char *part(char **at) {
    char *begin = *at, *end = begin + strcspn(begin, "\x01");
    *at = *end ? end + 1 : end;
    *end = '\0';
    return begin;
}

FUZZ(in) {
    gs_bpe *b;
    if (fuzz_byte(in) & 1) {
        if (load(in, &b) == GS_OK) check_again(b);
        gs_bpe_free(b);
        return;
    }
    char *text = fuzz_text(in), *at = text, tokens[ROOM];
    const size_t used = write_bytes(tokens, false);
    const char *more = part(&at), *merges = part(&at);
    snprintf(tokens + used, sizeof tokens - used, "%s%s", *more ? " " : "", more);
    if (gs_bpe_read(tokens, merges, "the input", &b) == GS_OK) {
        check_text(b, at, strlen(at));
        check_again(b);
    }
    gs_bpe_free(b);
    free(text);
}
