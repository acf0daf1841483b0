/* UTF-8 characters: builds a text's vocabulary, and encodes and decodes the text. In the first byte, bit 0 selects
 * bytes instead of characters, and bit 1 makes the vocabulary from the text's first half only. */
#include <stdlib.h>
#include <string.h>
#include "fuzz.h"
#include "core/text.h"
#include "data/vocabulary.h"

/* The concatenated pieces of the tokens must equal the text. */
static void check_back(const gs_vocabulary *v, const uint16_t *tokens, size_t count, const char *text,
                       size_t bytes) {
    size_t at = 0, length;
    char room[5];
    for (size_t i = 0; i < count; i++, at += length) {
        if (tokens[i] >= v->size) fuzz_wrong("token %d of %d", tokens[i], v->size);
        const char *piece = gs_vocabulary_piece(v, tokens[i], room, &length);
        if (length > bytes - at || memcmp(text + at, piece, length) != 0)
            fuzz_wrong("a different text came back");
    }
    if (at != bytes) fuzz_wrong("%zu bytes came back of %zu", at, bytes);
}

static void check_sorted(const gs_vocabulary *v) {
    for (int i = 1; v->character && i < v->size; i++)
        if (v->character[i] <= v->character[i - 1]) fuzz_wrong("character %d does not grow", i);
}

FUZZ(in) {
    const uint8_t how = fuzz_byte(in);
    const gs_tokens kind = how & 1 ? GS_TOKENS_BYTES : GS_TOKENS_CHARS;
    const size_t bytes = in->size, known = how & 2 ? bytes / 2 : bytes;
    char *text = fuzz_text(in), kept = text[known];
    gs_vocabulary v;
    uint16_t *tokens;
    size_t count;
    text[known] = '\0';
    const gs_status status = gs_vocabulary_of(kind, text, known, "the input", &v);
    text[known] = kept;
    if (status == GS_OK) {
        check_sorted(&v);
        if (gs_vocabulary_encode(&v, text, bytes, "the input", &tokens, &count) == GS_OK) {
            check_back(&v, tokens, count, text, bytes);
            free(tokens);
        } else if (!(how & 2))
            fuzz_wrong("a text does not fit its own vocabulary: %s", gs_message());
        gs_vocabulary_free(&v);
    }
    free(text);
}
