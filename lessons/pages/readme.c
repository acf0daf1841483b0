#include "lessons/pages/slides.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* One blank for each run of blanks. */
static char *collapse(const char *text) {
    char *words = malloc(strlen(text) + 1), *to = words;
    for (bool blank = false; words && *text; text++) {
        if (isspace((unsigned char)*text)) {
            blank = true;
            continue;
        }
        if (blank && to > words) *to++ = ' ';
        blank = false;
        *to++ = *text;
    }
    if (to) *to = '\0';
    return words;
}

gs_status readme_open(char *text, size_t bytes, readme *r) {
    *r = (readme){.text = text, .words = collapse(text)};
    gs_status status =
        r->words ? ast_parse(text, bytes, &r->a) : gs_fail(GS_E_MEMORY, "no memory for a README");
    if (status != GS_OK) readme_close(r);
    return status;
}

void readme_close(readme *r) {
    ast_free(&r->a);
    free(r->words);
    free(r->text);
    *r = (readme){.text = NULL};
}

bool readme_says(const readme *r, const char *words) {
    char *wanted = collapse(words);
    bool says = wanted && *wanted && strstr(r->words, wanted);
    size_t length = wanted ? strlen(wanted) : 0;
    if (length > 1 && !says) {
        if (wanted[length - 1] == '.') wanted[length - 1] = '\0';
        says = strstr(r->words, wanted) != NULL;
        wanted[0] = (char)(isupper((unsigned char)wanted[0]) ? tolower((unsigned char)wanted[0])
                                                             : toupper((unsigned char)wanted[0]));
        says = says || strstr(r->words, wanted);
    }
    free(wanted);
    return says;
}

/* The lines of a block as they stand in the README. */
static bool block_has(const readme *r, cmark_node *block, const char *words) {
    int first = cmark_node_get_start_line(block), last = cmark_node_get_end_line(block);
    const char *from = r->text;
    for (int line = 1; line < first && from; line++) from = (from = strchr(from, '\n')) ? from + 1 : NULL;
    const char *to = from;
    for (int line = first; line <= last && to; line++) to = (to = strchr(to, '\n')) ? to + 1 : NULL;
    const char *at = from ? strstr(from, words) : NULL;
    return at && (!to || at < to);
}

cmark_node *readme_block(const readme *r, const char *words, int *found) {
    cmark_node *block = NULL;
    *found = 0;
    for (cmark_node *n = cmark_node_first_child(r->a.root); n; n = cmark_node_next(n)) {
        if (!(ast_is(n, "code_block") || ast_is(n, "table")) || !block_has(r, n, words)) continue;
        (*found)++;
        block = n;
    }
    return *found == 1 ? block : NULL;
}

cmark_node *readme_after(const readme *r, const char *heading, const char *type) {
    int level = 0;
    for (cmark_node *n = cmark_node_first_child(r->a.root); n; n = cmark_node_next(n)) {
        if (ast_is(n, "heading")) {
            char *words = ast_words(n);
            bool is = words && strcmp(words, heading) == 0;
            free(words);
            if (level > 0 && cmark_node_get_heading_level(n) <= level) return NULL;
            if (is) level = cmark_node_get_heading_level(n);
        } else if (level > 0 && ast_is(n, type)) {
            return n;
        }
    }
    return NULL;
}

cmark_node *readme_paragraph(const readme *r, const char *begin) {
    for (cmark_node *n = cmark_node_first_child(r->a.root); n; n = cmark_node_next(n)) {
        char *words = ast_is(n, "paragraph") ? ast_words(n) : NULL;
        bool is = words && strncmp(words, begin, strlen(begin)) == 0;
        free(words);
        if (is) return n;
    }
    return NULL;
}

cmark_node *readme_box(const readme *r, const char *id) {
    char its[32];
    for (cmark_node *n = cmark_node_first_child(r->a.root); n; n = cmark_node_next(n))
        if (ast_is(n, "block_quote") && ast_is_box(n, its, sizeof its) && strcmp(its, id) == 0) return n;
    return NULL;
}
