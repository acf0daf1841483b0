/* A vocabulary: the text that each token stands for.
 *
 *     chars   the characters of a text (Unicode code points, written as UTF-8), each once, sorted by code point:
 *             token i is character i. "abba c" has the vocabulary " abc" and the tokens 1 2 2 1 0 3
 *     bytes   the 256 bytes: token i is byte i. Encodes any file
 *     bpe     byte pairs (bpe.h), from an existing list, such as GPT-2's. Encodes any text
 *
 * A model's file holds the vocabulary it was trained with (model/safetensors.h): its tokens mean nothing in another
 * one. */
#pragma once

#include "data/bpe.h"

typedef enum gs_tokens {
    GS_TOKENS_CHARS,
    GS_TOKENS_BYTES,
    GS_TOKENS_BPE,
    GS_TOKENS_UNSAID, /* in settings: the loaded model's kind, else characters */
} gs_tokens;

enum {
    GS_VOCABULARY_BYTES = 256,
    GS_VOCABULARY_MOST = 65536, /* characters, because a token has 16 bits */
};

typedef struct gs_vocabulary {
    gs_tokens kind;
    int size;            /* tokens are 0 .. size - 1 */
    uint32_t *character; /* for chars: size code points, ascending; else NULL */
    gs_bpe *bpe;         /* for bpe; else NULL */
} gs_vocabulary;

/* The name: "chars", "bytes", "bpe". The word, for `count` of them: "characters" or "character", "bytes", "tokens". */
const char *gs_tokens_name(gs_tokens);
const char *gs_tokens_word(gs_tokens, size_t count);

/* The vocabulary of a text of `bytes` bytes followed by a 0. `where` names its origin in messages. GS_E_FORMAT: the
 * text is empty; for characters, it is not UTF-8 or contains the character 0 (the message says where), or it has more
 * than GS_VOCABULARY_MOST different characters. GS_E_USAGE: byte pairs, which need a list. Call gs_vocabulary_free
 * after success. */
gs_status gs_vocabulary_of(gs_tokens, const char *text, size_t bytes, const char *where, gs_vocabulary *out);
/* The byte pairs from a folder; errors as in gs_bpe_load. */
gs_status gs_vocabulary_load(const char *folder, gs_vocabulary *out);
void gs_vocabulary_free(gs_vocabulary *);
gs_status gs_vocabulary_copy(const gs_vocabulary *, gs_vocabulary *out);

/* The tokens of such a text; free them with free(). GS_E_FORMAT: as above (for byte pairs too), or the vocabulary lacks
 * a character; the message names the first such one, its byte and line. */
gs_status gs_vocabulary_encode(const gs_vocabulary *, const char *text, size_t bytes, const char *where,
                               uint16_t **tokens, size_t *count);

/* The text of one token, which may be part of a character: *bytes bytes, at least 1, in `room` or in the vocabulary. */
const char *gs_vocabulary_piece(const gs_vocabulary *, int token, char room[5], size_t *bytes);

/* The token that precedes the first one of a text: "<|endoftext|>", else the newline, else token 0. */
int gs_vocabulary_start(const gs_vocabulary *);

bool gs_vocabulary_same(const gs_vocabulary *, const gs_vocabulary *);
