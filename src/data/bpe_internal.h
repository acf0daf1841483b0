/* The internals of gs_bpe, for bpe.c and its tests. */
#pragma once

#include "data/bpe.h"

/* Tokens left and right become `made`. A merge's index in the list is its rank; the lowest rank is merged first. */
typedef struct gs_bpe_merge {
    uint16_t left, right, made;
} gs_bpe_merge;

#define GS_BPE_END "<|endoftext|>" /* the token between texts */

struct gs_bpe {
    int users;
    int size, end;   /* the number of tokens; the token between texts, or -1 */
    char *bytes;     /* the bytes of all tokens, ... */
    uint32_t *begin; /* ... where token i is bytes[begin[i]] to bytes[begin[i + 1] - 1] */
    uint16_t of_byte[256];
    gs_bpe_merge *merge; /* by rank */
    uint32_t merges;
    uint32_t *pair; /* a hash table of 2^bits entries, which are rank + 1; 0: empty */
    int bits;
    void *words; /* the regular expression, compiled by PCRE2 */
};

/* ---- the merge of a pair ---- */

enum { GS_BPE_NONE = -1 };

/* The slot of a pair in the table; it may be empty. */
static inline uint32_t *gs_bpe_place(const gs_bpe *b, int left, int right) {
    uint32_t at = ((uint32_t)left << 16 | (uint32_t)right) * 0x9e3779b1u >> (32 - b->bits);
    for (; b->pair[at]; at = (at + 1) & ((1u << b->bits) - 1)) {
        const gs_bpe_merge *m = &b->merge[b->pair[at] - 1];
        if (m->left == left && m->right == right) break;
    }
    return &b->pair[at];
}

/* The rank of a pair; GS_BPE_NONE if it has none. */
static inline int64_t gs_bpe_rank(const gs_bpe *b, int left, int right) {
    return (int64_t)*gs_bpe_place(b, left, right) - 1;
}

/* ---- the alphabet of files ---- */

/* From a byte to its character in files, and back; GS_BPE_NONE: the character stands for no byte. */
uint32_t gs_bpe_character(unsigned char byte);
int gs_bpe_byte(uint32_t character);

/* ---- words ---- */

/* Iterates over the words of texts. */
typedef struct gs_bpe_walk {
    const void *words;
    void *match;
} gs_bpe_walk;

gs_status gs_bpe_walk_begin(gs_bpe_walk *, const void *);
void gs_bpe_walk_end(gs_bpe_walk *);
/* *length = the length, at least 1, of the word that begins at text[at], at < bytes. */
gs_status gs_bpe_walk_next(gs_bpe_walk *, const char *text, size_t bytes, size_t at, size_t *length);
