/* Byte pairs: the tokens of GPT-2. A text is cut into words, a word into bytes, and bytes are joined.
 *
 *     words    the longest first of   's 't 're 've 'm 'll 'd | letters | digits | other signs, each after one space
 *              or none | white space, whose last character is left to the word behind it
 *     bytes    each byte is a token
 *     merges   a list of pairs of tokens, each with the token that it becomes. Of all neighbours in the word that are
 *              such a pair, those of the earliest in the list are joined, and of several the first; until none is left
 *
 *     " lower" with the merges  l o, lo w, e r, Ġ low:
 *     Ġ l o w e r -> Ġ lo w e r -> Ġ low e r -> Ġ low er -> Ġlow er
 *
 * Every byte is a token, so every text has tokens. The token "<|endoftext|>", where there is one, stands between texts:
 * in a text it is that token, and no words.
 *
 * In files a token is written in an alphabet that has no white space: byte b is the character b where that can be seen
 * (33 to 126, 161 to 172, 174 to 255), else the next one from U+0100 on. So the space is Ġ (U+0120), the end of a line
 * Ċ (U+010A).
 *
 * A gs_bpe does not change after it is made: threads may share it.
 *
 * Source: Gage, "A new algorithm for data compression" (1994); Sennrich, Haddow, Birch, "Neural machine translation of
 * rare words with subword units" (2016); Radford et al., "Language models are unsupervised multitask learners" (2019),
 * for bytes and words.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "core/error.h"

enum {
    GS_BPE_LEAST = 256, /* tokens: the bytes */
    GS_BPE_MOST = 65536 /* a token is 16 bits */
};

typedef struct gs_bpe gs_bpe;

/* Read vocab.json ({"!": 0, ...}) and merges.txt (a pair in each line, after "#version: ..."), as published with GPT-2
 * and as Hugging Face's tokenizers write them. GS_E_FILE: a file is missing, cannot be read or is larger than 16 MB.
 * GS_E_FORMAT: no JSON; numbers that are not 0, 1, 2, ...; fewer tokens than GS_BPE_LEAST or more than GS_BPE_MOST; a
 * byte without a token; a character of another alphabet; a merge of what is no token, or into what is none. The message
 * has the file, the line or the token. Call gs_bpe_free after success. */
gs_status gs_bpe_load(const char *folder, gs_bpe **out);

/* The same from texts: all tokens by their numbers, with spaces between; and the merges, a pair in each line. `where`
 * says in messages where the texts come from. gs_bpe_texts writes such; both are to be freed with free(). GS_E_MEMORY.
 */
gs_status gs_bpe_read(const char *tokens, const char *merges, const char *where, gs_bpe **out);
gs_status gs_bpe_texts(const gs_bpe *, char **tokens, char **merges);

gs_bpe *gs_bpe_share(gs_bpe *); /* the same one; each owner frees it once. NULL is allowed */
void gs_bpe_free(gs_bpe *);     /* NULL is allowed */
bool gs_bpe_same(const gs_bpe *, const gs_bpe *);

int gs_bpe_size(const gs_bpe *);
int gs_bpe_end(const gs_bpe *); /* the token "<|endoftext|>"; -1: there is none */

/* The bytes of a token, 0 <= token < size. There is no 0 after them. */
const char *gs_bpe_piece(const gs_bpe *, int token, size_t *bytes);

/* The tokens of a text, which must be UTF-8. There are at most as many as bytes, and `tokens` has room for them. n
 * bytes take time n log n, also if they are one word. What letters and digits are, PCRE2 says by its version of
 * Unicode. GS_E_MEMORY. */
gs_status gs_bpe_encode(const gs_bpe *, const char *text, size_t bytes, uint16_t *tokens, size_t *count);
