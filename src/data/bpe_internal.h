/* What a gs_bpe is made of, for bpe.c and its tests. */
#pragma once

#include "data/bpe.h"

/* left, right -> made. Its place in the list is its rank: the lowest is first. */
typedef struct gs_bpe_merge {
    uint16_t left, right, made;
} gs_bpe_merge;

#define GS_BPE_END "<|endoftext|>" /* the token between texts */

struct gs_bpe {
    int users;
    int size, end;   /* tokens; the one between texts, or -1 */
    char *bytes;     /* of all tokens: ... */
    uint32_t *begin; /* ... token i has bytes[begin[i]] to bytes[begin[i + 1] - 1] */
    uint16_t of_byte[256];
    gs_bpe_merge *merge; /* by rank */
    uint32_t merges;
    uint32_t *pair; /* a table of 2^bits ranks + 1, by the hash of their pair; 0: empty */
    int bits;
    void *words; /* the expression of a word, compiled by PCRE2 */
};

/* ---- the merge of a pair ---- */

enum { GS_BPE_NONE = -1 };

/* Its place in the table, which may be empty. */
static inline uint32_t *gs_bpe_place(const gs_bpe *b, int left, int right) {
    uint32_t at = ((uint32_t)left << 16 | (uint32_t)right) * 0x9e3779b1u >> (32 - b->bits);
    for (; b->pair[at]; at = (at + 1) & ((1u << b->bits) - 1)) {
        const gs_bpe_merge *m = &b->merge[b->pair[at] - 1];
        if (m->left == left && m->right == right) break;
    }
    return &b->pair[at];
}

/* Its rank; GS_BPE_NONE. */
static inline int64_t gs_bpe_rank(const gs_bpe *b, int left, int right) {
    return (int64_t)*gs_bpe_place(b, left, right) - 1;
}

/* ---- the alphabet of files ---- */

/* A byte as the character of files, and back; GS_BPE_NONE: the character stands for no byte. */
uint32_t gs_bpe_character(unsigned char byte);
int gs_bpe_byte(uint32_t character);

/* ---- words ---- */

/* One walk over texts. */
typedef struct gs_bpe_walk {
    const void *words;
    void *match;
} gs_bpe_walk;

gs_status gs_bpe_walk_begin(gs_bpe_walk *, const void *);
void gs_bpe_walk_end(gs_bpe_walk *);
/* The word of text[0 .. bytes-1] that begins at `at` < bytes: *length, at least 1. */
gs_status gs_bpe_walk_next(gs_bpe_walk *, const char *text, size_t bytes, size_t at, size_t *length);
