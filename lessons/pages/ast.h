/* Markdown as a tree, by cmark-gfm, and what both kinds of pages ask of it. */
#pragma once

#include <cmark-gfm-core-extensions.h>
#include <cmark-gfm-extension_api.h>
#include <cmark-gfm.h>
#include <stdbool.h>
#include <stddef.h>
#include "core/error.h"

typedef struct ast {
    cmark_parser *parser;
    cmark_node *root;
} ast;

/* GitHub's Markdown: with tables. */
gs_status ast_parse(const char *text, size_t bytes, ast *);
void ast_free(ast *);

bool ast_is(cmark_node *, const char *type); /* "paragraph", "code_block", "table", ... */

/* All nodes of a type, in the order of the text: the nodes may be changed. To be freed; *count of them. */
cmark_node **ast_all(cmark_node *root, const char *type, size_t *count);

/* The words of a node without their markup. To be freed. */
char *ast_words(cmark_node *);

/* HTML of a node and all in it. To be freed. */
char *ast_html(const ast *, cmark_node *);

/* A heading's place in links, as GitHub names it. To be freed. */
char *ast_slug(cmark_node *heading);

/* The box "Predict before you run (7a)": its name, in `id`. false: another quotation. */
bool ast_is_box(cmark_node *block_quote, char *id, size_t size);

cmark_node *ast_raw(bool block, const char *html);
