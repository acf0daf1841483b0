/* Byte pairs: GPT-2's tokens. A text is cut into words and a word into bytes; then bytes are merged.
 *
 *     words    's 't 're 've 'm 'll 'd | [ ]letters | [ ]digits | [ ]other signs, where [ ] is an optional space
 *              | white space, except its last character, which belongs to the next word
 *     bytes    each byte is a token
 *     merges   a list of pairs of tokens, each with the token that it becomes. Of all neighbouring pairs in a word, the
 *              first one in the list is merged, where it first occurs; this repeats until no pair is in the list
 *
 *     " lower" with the merges "l o", "lo w", "e r" and "Ġ low":
 *     Ġ l o w e r -> Ġ lo w e r -> Ġ low e r -> Ġ low er -> Ġlow er
 *
 * Every byte is a token, so any text can be encoded. The token "<|endoftext|>", if the vocabulary has it, separates
 * texts: where a text contains these characters, they become that token, not words.
 *
 * Files write tokens in an alphabet without white space: byte b is the character b if that is visible (33 to 126, 161
 * to 172, 174 to 255), else the next unused character from U+0100 on. The space is Ġ (U+0120), newline Ċ (U+010A).
 *
 * A gs_bpe does not change after its creation, so threads may share it.
 *
 * Source: Gage, "A new algorithm for data compression" (1994); Sennrich, Haddow, Birch, "Neural machine translation of
 * rare words with subword units" (2016); Radford et al., "Language models are unsupervised multitask learners" (2019),
 * for bytes and words. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include "core/error.h"

enum {
    GS_BPE_LEAST = 256, /* tokens: one for each byte */
    GS_BPE_MOST = 65536 /* a token has 16 bits */
};

typedef struct gs_bpe gs_bpe;

/* Read vocab.json ({"!": 0, ...}) and merges.txt (one pair per line, after "#version: ..."), as published with GPT-2
 * and written by Hugging Face's tokenizers. A tokenizer file in the same folder that asks for other tokens is rejected
 * (GS_E_FORMAT). GS_E_FILE: a file is missing, cannot be read or exceeds 16 MB. GS_E_FORMAT: not JSON; numbers that are
 * not 0, 1, 2, ...; fewer tokens than GS_BPE_LEAST or more than GS_BPE_MOST; a byte without a token; a character that
 * is not in that alphabet; a merge from or to an unknown token. The message names the file, the line or the token. Call
 * gs_bpe_free after success. */
gs_status gs_bpe_load(const char *folder, gs_bpe **out);

/* The same from texts: all tokens in order, separated by spaces, and the merges, one pair per line. `where` names their
 * origin in messages. gs_bpe_texts writes such texts; free() both. GS_E_MEMORY. */
gs_status gs_bpe_read(const char *tokens, const char *merges, const char *where, gs_bpe **out);
gs_status gs_bpe_texts(const gs_bpe *, char **tokens, char **merges);

gs_bpe *gs_bpe_share(gs_bpe *); /* returns its argument; each owner frees it once. NULL is allowed */
void gs_bpe_free(gs_bpe *);     /* NULL is allowed */
bool gs_bpe_same(const gs_bpe *, const gs_bpe *);

int gs_bpe_size(const gs_bpe *);
int gs_bpe_end(const gs_bpe *); /* the token "<|endoftext|>"; -1: none */

/* The bytes of a token, 0 <= token < size, without a final 0. */
const char *gs_bpe_piece(const gs_bpe *, int token, size_t *bytes);

/* The tokens of a UTF-8 text. `tokens` must have room for one per byte. A word takes time in proportion to its bytes
 * times the different merges in it. PCRE2's version of Unicode decides which characters are letters and digits.
 * GS_E_MEMORY. */
gs_status gs_bpe_encode(const gs_bpe *, const char *text, size_t bytes, uint16_t *tokens, size_t *count);
