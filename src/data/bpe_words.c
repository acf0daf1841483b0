/* A text becomes words, by GPT-2's regular expression and PCRE2. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdlib.h>
#include "data/bpe_parts.h"

/* White space, as Unicode has it (White_Space). PCRE2's \s also has U+180E, which was one until 2013. */
#define SPACE "\\t-\\r\\x{85}\\p{Z}"

/* The last but one leaves the last white space of several to the word behind it: " a" is one word. */
static const char WORD[] = "'s|'t|'re|'ve|'m|'ll|'d"
                           "| ?\\p{L}+| ?\\p{N}+| ?[^" SPACE "\\p{L}\\p{N}]+"
                           "|[" SPACE "]+(?![^" SPACE "])|[" SPACE "]+";

struct gs_bpe_words {
    pcre2_code *code;
};

struct gs_bpe_words *gs_bpe_words_create(void) {
    int error;
    PCRE2_SIZE at;
    struct gs_bpe_words *w = calloc(1, sizeof *w);
    if (!w) return NULL;
    w->code = pcre2_compile((PCRE2_SPTR)WORD, PCRE2_ZERO_TERMINATED, PCRE2_UTF | PCRE2_UCP | PCRE2_ANCHORED,
                            &error, &at, NULL);
    if (!w->code && error != PCRE2_ERROR_NOMEMORY && error != PCRE2_ERROR_HEAP_FAILED)
        gs_bug("PCRE2 refuses the expression of a word: error %d at %zu", error, at);
    /* 134 MB/s of words instead of 34 (jargon, one core). Where memory may not become code, PCRE2 goes on
     * without. */
    if (w->code) pcre2_jit_compile(w->code, PCRE2_JIT_COMPLETE);
    if (w->code) return w;
    free(w);
    return NULL;
}

void gs_bpe_words_free(struct gs_bpe_words *w) {
    if (!w) return;
    pcre2_code_free(w->code);
    free(w);
}

gs_status gs_bpe_walk_begin(gs_bpe_walk *walk, const struct gs_bpe_words *words) {
    *walk = (gs_bpe_walk){words, pcre2_match_data_create(1, NULL)};
    return walk->match ? GS_OK : gs_fail(GS_E_MEMORY, "no memory to look for words");
}

void gs_bpe_walk_end(gs_bpe_walk *walk) {
    pcre2_match_data_free(walk->match);
}

gs_status gs_bpe_walk_next(gs_bpe_walk *walk, const char *text, size_t bytes, size_t at, size_t *length) {
    const int found =
        pcre2_match(walk->words->code, (PCRE2_SPTR)text, bytes, at, PCRE2_NO_UTF_CHECK, walk->match, NULL);
    const PCRE2_SIZE end = pcre2_get_ovector_pointer(walk->match)[1];
    *length = end - at;
    if (found > 0 && end > at) return GS_OK;
    if (found == PCRE2_ERROR_NOMATCH)
        gs_bug("gs_bpe: no word begins at byte %zu", at); /* every character is in one */
    return gs_fail(GS_E_MEMORY, "the word at byte %zu of the text is too long for PCRE2 (error %d)", at,
                   found);
}
