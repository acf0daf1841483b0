/* The words of a model text, and what is said when one of them is wrong. Only model_text.c reads words.
 *
 * A word ends at a space or at a sign: one of , ( ) | ; =. Within the body of a block a word that names one of its
 * parameters is replaced by the number that was given for it, so whoever reads words need not know of blocks.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include "core/error.h"

enum {
    GS_WORDS_NUMBER = 1000000, /* the largest */
    GS_BLOCK_PARAMS = 8,       /* at most, of one block */
};

/* A word of the text: not ended by '\0'. */
typedef struct gs_word {
    const char *at;
    size_t length;
} gs_word;

/* "block NAME PARAM ... = body ;" */
typedef struct gs_block {
    gs_word name, param[GS_BLOCK_PARAMS];
    int params;
    const char *body; /* its first character */
    bool used;
} gs_block;

typedef struct gs_words {
    const char *text;
    gs_word here;     /* the lookahead: a word, a sign, or the end (length 0) */
    const char *next; /* what follows it */
    /* Whose body is being read, and what its parameters stand for; NULL: none. */
    const gs_block *block;
    gs_word value[GS_BLOCK_PARAMS];
} gs_words;

/* Begin to read at `from`, a place in words->text. */
void gs_words_begin(gs_words *, const char *from);
void gs_words_advance(gs_words *);

bool gs_word_is(gs_word word, const char *text);
bool gs_word_same(gs_word, gs_word);
/* Is it a sign, and not a word? The end is neither. */
bool gs_word_is_sign(gs_word);

/* If the lookahead is this word or sign, go on behind it. */
bool gs_words_accept(gs_words *, const char *word);

/* GS_E_MODEL: "model text: word 5 ('rellu', column 19): ..." */
gs_status gs_words_wrong(const gs_words *, const char *format, ...) GS_PRINTF(2, 3);

/* The nearest of `words` (ending with NULL), if it is near enough to be meant: "did you mean relu? ", else "". */
void gs_words_suggest(const gs_words *, const char *const *words, char *out, size_t size);

/* ---- numbers; `what` is for the message ---- */

/* A whole number from 1 to GS_WORDS_NUMBER. */
gs_status gs_words_count(gs_words *, const char *what, int *out);

/* Is the lookahead such a number? Nothing is said if not. */
bool gs_words_at_count(const gs_words *, int *out);

typedef struct gs_size2d {
    int h, w;
} gs_size2d;

/* K or HxW, both from `least` to GS_WORDS_NUMBER. */
gs_status gs_words_size(gs_words *, const char *what, int least, gs_size2d *out);

/* A decimal such as 0.25, at least 0 and below 1. */
gs_status gs_words_chance(gs_words *, const char *what, float *out);

/* A decimal from 0.0001 to 100. */
gs_status gs_words_deviation(gs_words *, const char *what, float *out);
