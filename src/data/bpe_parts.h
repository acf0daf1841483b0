/* What a gs_bpe is made of, for the files that make it (bpe_make.c, bpe_files.c) and use it (bpe.c, bpe_words.c). */
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
    struct gs_bpe_words *words;
};

/* ---- the merge of a pair (bpe_make.c) ---- */

enum { GS_BPE_NONE = -1 };

static inline uint32_t gs_bpe_slot(const gs_bpe *b, int left, int right) {
    return ((uint32_t)left << 16 | (uint32_t)right) * 0x9e3779b1u >> (32 - b->bits);
}

/* Its rank; GS_BPE_NONE. */
static inline int64_t gs_bpe_rank(const gs_bpe *b, int left, int right) {
    const uint32_t last = (1u << b->bits) - 1;
    for (uint32_t at = gs_bpe_slot(b, left, right); b->pair[at]; at = (at + 1) & last) {
        const gs_bpe_merge *m = &b->merge[b->pair[at] - 1];
        if (m->left == left && m->right == right) return b->pair[at] - 1;
    }
    return GS_BPE_NONE;
}

/* ---- making one (bpe_make.c) ---- */

/* While its merges come. Tokens are found by their text in the alphabet of files. */
typedef struct gs_bpe_maker {
    gs_bpe *bpe;
    const char *const *token; /* by number, not owned */
    uint32_t *found;          /* a table of 2^bits numbers + 1, by the hash of the text; 0: empty */
    int bits;
    size_t merges_most;
} gs_bpe_maker;

/* `size` tokens; room for `merges` merges. `where` is the file. Call gs_bpe_maker_end in any case. */
gs_status gs_bpe_maker_begin(gs_bpe_maker *, const char *where, const char *const *token, size_t size,
                             size_t merges);
/* The next merge: two texts, with their lengths. `where` and `line` are for messages. */
gs_status gs_bpe_maker_merge(gs_bpe_maker *, const char *where, size_t line, const char *left,
                             size_t left_bytes, const char *right, size_t right_bytes);
/* NULL, where `status` or this fails. */
gs_status gs_bpe_maker_end(gs_bpe_maker *, gs_status status, gs_bpe **out);

/* A byte as the character of files, and back; GS_BPE_NONE: the character stands for no byte. */
uint32_t gs_bpe_character(unsigned char byte);
int gs_bpe_byte(uint32_t character);

/* ---- words (bpe_words.c) ---- */

/* What cuts a text into words; NULL: no memory. */
struct gs_bpe_words *gs_bpe_words_create(void);
void gs_bpe_words_free(struct gs_bpe_words *);

/* One walk over texts. */
typedef struct gs_bpe_walk {
    const struct gs_bpe_words *words;
    void *match;
} gs_bpe_walk;

gs_status gs_bpe_walk_begin(gs_bpe_walk *, const struct gs_bpe_words *);
void gs_bpe_walk_end(gs_bpe_walk *);
/* The word of text[0 .. bytes-1] that begins at `at` < bytes: *length, at least 1. */
gs_status gs_bpe_walk_next(gs_bpe_walk *, const char *text, size_t bytes, size_t at, size_t *length);
