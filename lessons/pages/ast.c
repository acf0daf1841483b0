#include "lessons/pages/ast.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

gs_status ast_parse(const char *text, size_t bytes, ast *a) {
    cmark_gfm_core_extensions_ensure_registered();
    a->root = NULL;
    a->parser = cmark_parser_new(CMARK_OPT_UNSAFE);
    cmark_parser_attach_syntax_extension(a->parser, cmark_find_syntax_extension("table"));
    cmark_parser_feed(a->parser, text, bytes);
    a->root = cmark_parser_finish(a->parser);
    if (a->root) return GS_OK;
    ast_free(a);
    return gs_fail(GS_E_MEMORY, "no memory for %zu bytes of Markdown", bytes);
}

void ast_free(ast *a) {
    if (a->root) cmark_node_free(a->root);
    if (a->parser) cmark_parser_free(a->parser);
    *a = (ast){NULL, NULL};
}

bool ast_is(cmark_node *node, const char *type) {
    return node && strcmp(cmark_node_get_type_string(node), type) == 0;
}

cmark_node **ast_all(cmark_node *root, const char *type, size_t *count) {
    cmark_node **all = NULL;
    size_t room = 0;
    cmark_iter *iter = cmark_iter_new(root);
    *count = 0;
    for (cmark_event_type e; (e = cmark_iter_next(iter)) != CMARK_EVENT_DONE;) {
        cmark_node *node = cmark_iter_get_node(iter);
        if (e != CMARK_EVENT_ENTER || !ast_is(node, type)) continue;
        if (*count == room) {
            room = room ? 2 * room : 32;
            cmark_node **more = realloc(all, room * sizeof(cmark_node *));
            if (!more) break;
            all = more;
        }
        all[(*count)++] = node;
    }
    cmark_iter_free(iter);
    return all;
}

char *ast_words(cmark_node *node) {
    char *text = NULL;
    size_t size = 0;
    FILE *to = open_memstream(&text, &size);
    if (!to) return NULL;
    cmark_iter *iter = cmark_iter_new(node);
    for (cmark_event_type e; (e = cmark_iter_next(iter)) != CMARK_EVENT_DONE;) {
        cmark_node *n = cmark_iter_get_node(iter);
        const char *literal = cmark_node_get_literal(n);
        if (e != CMARK_EVENT_ENTER) continue;
        if (ast_is(n, "softbreak") || ast_is(n, "linebreak") || (ast_is(n, "table_cell") && n != node))
            fputc(' ', to);
        if ((ast_is(n, "text") || ast_is(n, "code") || ast_is(n, "code_block")) && literal)
            fputs(literal, to);
    }
    cmark_iter_free(iter);
    fclose(to);
    return text;
}

char *ast_html(const ast *a, cmark_node *node) {
    return cmark_render_html(node, CMARK_OPT_UNSAFE, cmark_parser_get_syntax_extensions(a->parser));
}

char *ast_slug(cmark_node *heading) {
    char *words = ast_words(heading), *to = words;
    for (const char *from = words; from && *from; from++) {
        unsigned char c = (unsigned char)*from;
        if (isalnum(c) || c == '-' || c == '_') *to++ = (char)tolower(c);
        if (c == ' ') *to++ = '-';
    }
    if (to) *to = '\0';
    return words;
}

bool ast_is_box(cmark_node *block_quote, char *id, size_t size) {
    char *words = ast_words(block_quote);
    const char *begin = "Predict before you run (";
    bool is = words && strncmp(words, begin, strlen(begin)) == 0;
    if (is) snprintf(id, size, "%.*s", (int)strcspn(words + strlen(begin), ")"), words + strlen(begin));
    free(words);
    return is;
}

cmark_node *ast_raw(bool block, const char *html) {
    cmark_node *node = cmark_node_new(block ? CMARK_NODE_HTML_BLOCK : CMARK_NODE_HTML_INLINE);
    cmark_node_set_literal(node, html);
    return node;
}
