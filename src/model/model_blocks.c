/* Lists of layers, repetitions and blocks, and the text as a whole: a recursive-descent parser, one function for each
 * rule of the grammar in model_text.h, and one word of lookahead. */
#include <stdlib.h>

#include "core/memory.h"
#include "model/model_parser.h"
#include "model/model_text.h"

enum {
    MAX_DEPTH = 32,     /* of parentheses and blocks within blocks; each level is a level of recursion */
    MAX_LAYERS = 10000, /* of a text with its repetitions */
};

/* A list that grows. */
typedef struct list {
    gs_layer **layer;
    int count;
    size_t room;
} list;

/* ---- lists and repetitions ---- */

static gs_status add(gs_parser *p, list *a, gs_layer *l) {
    if (++p->layers > MAX_LAYERS) {
        gs_layer_free(l);
        return gs_words_wrong(&p->words, "the model has more than %d layers", MAX_LAYERS);
    }
    if (!gs_grow(&a->layer, (size_t)a->count, &a->room, sizeof *a->layer)) {
        gs_layer_free(l);
        return gs_fail(GS_E_MEMORY, "out of memory for the list of %d layers of a model", a->count + 1);
    }
    a->layer[a->count++] = l;
    return GS_OK;
}

static gs_status parse_list(gs_parser *p, const char *end, list *a);
static gs_status parse_item(gs_parser *p, const char *end, list *a);

gs_status gs_parse_deeper(gs_parser *p) {
    if (p->depth++ < MAX_DEPTH) return GS_OK;
    return gs_words_wrong(&p->words, "parentheses and blocks are nested more than %d deep", MAX_DEPTH);
}

/* "3 x ITEM" or "3 x ( LIST )": what follows the x is read so many times. */
static gs_status parse_repeated(gs_parser *p, const char *end, int times, list *a) {
    gs_words_advance(&p->words);
    gs_words_advance(&p->words);
    const gs_words what = p->words;
    GS_TRY(gs_parse_deeper(p));
    for (int i = 0; i < times; i++) {
        p->words = what;
        if (!gs_words_accept(&p->words, "(")) {
            GS_TRY(parse_item(p, end, a));
            continue;
        }
        GS_TRY(parse_list(p, "')'", a));
        if (!gs_words_accept(&p->words, ")")) return gs_words_wrong(&p->words, "expected ',' or ')'");
        if (!gs_parse_is_end(p)) return gs_words_wrong(&p->words, "expected ',' or %s", end);
    }
    p->depth--;
    return GS_OK;
}

/* "same 16": the layers of the block's body, in which its parameters stand for these words. */
static gs_status parse_block(gs_parser *p, const char *end, int number, list *a) {
    gs_block *block = &p->block[number];
    gs_words body = {.text = p->words.text, .block = block};
    block->used = true;
    gs_words_advance(&p->words);
    for (int i = 0; i < block->params; i++) {
        if (gs_parse_is_end(p))
            return gs_words_wrong(&p->words, "expected %.*s of block %.*s", (int)block->param[i].length,
                                  block->param[i].at, (int)block->name.length, block->name.at);
        body.value[i] = p->words.here;
        gs_words_advance(&p->words);
    }
    if (!gs_parse_is_end(p))
        return gs_words_wrong(&p->words, "expected ',' or %s: block %.*s has %d parameter%s", end,
                              (int)block->name.length, block->name.at, block->params, gs_s(block->params));
    const gs_words after = p->words;
    const int named = p->blocks, first = a->count, use = ++p->uses;
    GS_TRY(gs_parse_deeper(p));
    p->words = body;
    p->blocks = number; /* a block knows those before it, so none holds itself */
    gs_words_begin(&p->words, block->body);
    GS_TRY(parse_list(p, "';'", a));
    if (!gs_word_is(p->words.here, ";")) return gs_words_wrong(&p->words, "expected ',' or ';'");
    for (int i = first; i < a->count; i++)
        a->layer[i]->block = use; /* the outermost block has the last word */
    p->words = after;
    p->blocks = named;
    p->depth--;
    return GS_OK;
}

static gs_status parse_item(gs_parser *p, const char *end, list *a) {
    gs_words next = p->words;
    gs_layer *l;
    int times, kind;
    gs_words_advance(&next);
    if (gs_words_at_count(&p->words, &times) && gs_word_is(next.here, "x"))
        return parse_repeated(p, end, times, a);
    if (gs_word_is(p->words.here, "0") && gs_word_is(next.here, "x"))
        return gs_words_wrong(&p->words, "expected how many times, a whole number from 1 up");
    for (int i = 0; i < p->blocks; i++)
        if (gs_word_same(p->block[i].name, p->words.here)) return parse_block(p, end, i, a);
    GS_TRY(gs_parse_layer(p, &kind, &l));
    GS_TRY(add(p, a, l));
    return gs_parse_layer_ends(p, end, kind);
}

static gs_status parse_list(gs_parser *p, const char *end, list *a) {
    do GS_TRY(parse_item(p, end, a));
    while (gs_words_accept(&p->words, ","));
    return GS_OK;
}

gs_status gs_parse_model(gs_parser *p, const char *end, gs_layer **net) {
    list a = {NULL, 0, 0};
    gs_status st = parse_list(p, end, &a);
    if (st == GS_OK) {
        *net = gs_sequential(a.count, a.layer);
        if (!*net) st = gs_fail(GS_E_MEMORY, "out of memory for a model of %d layers", a.count);
    } else {
        for (int i = 0; i < a.count; i++) gs_layer_free(a.layer[i]);
    }
    free(a.layer);
    return st;
}

/* ---- the blocks before the model ---- */

/* A word that nothing else is called: of block `b`, its name or one of its parameters. */
static gs_status parse_new_word(gs_parser *p, const gs_block *b, const char *what, gs_word *out) {
    const gs_word here = p->words.here;
    bool letter =
        here.length > 0 && ((*here.at >= 'a' && *here.at <= 'z') || (*here.at >= 'A' && *here.at <= 'Z'));
    if (!letter) return gs_words_wrong(&p->words, "expected %s, a word that begins with a letter", what);
    bool taken = gs_parse_is_reserved(here);
    for (int i = 0; i < p->blocks; i++) taken = taken || gs_word_same(here, p->block[i].name);
    for (int i = 0; i < b->params; i++) taken = taken || gs_word_same(here, b->param[i]);
    taken = taken || (b->name.at && gs_word_same(here, b->name));
    if (taken) return gs_words_wrong(&p->words, "expected %s, but this word has a meaning already", what);
    *out = here;
    gs_words_advance(&p->words);
    return GS_OK;
}

/* Behind "block": "NAME PARAM ... = body ;". The body is read where the block is used. */
static gs_status define_block(gs_parser *p) {
    gs_block b = {0};
    if (p->blocks == GS_PARSER_BLOCKS)
        return gs_words_wrong(&p->words, "there are more than %d blocks", GS_PARSER_BLOCKS);
    GS_TRY(parse_new_word(p, &b, "the name of a block", &b.name));
    while (!gs_parse_is_end(p)) {
        if (b.params == GS_BLOCK_PARAMS)
            return gs_words_wrong(&p->words, "a block has at most %d parameters", GS_BLOCK_PARAMS);
        GS_TRY(parse_new_word(p, &b, "a parameter of the block", &b.param[b.params]));
        b.params++;
    }
    if (!gs_word_is(p->words.here, "="))
        return gs_words_wrong(&p->words, "expected '=' and the layers of the block");
    b.body = p->words.next;
    while (!gs_word_is(p->words.here, ";")) {
        gs_words_advance(&p->words);
        if (p->words.here.length == 0)
            return gs_words_wrong(&p->words, "expected ';' to end block %.*s", (int)b.name.length, b.name.at);
    }
    gs_words_advance(&p->words);
    p->block[p->blocks++] = b;
    return GS_OK;
}

static gs_status parse_text(gs_parser *p, gs_layer **net) {
    while (gs_words_accept(&p->words, "block")) GS_TRY(define_block(p));
    GS_TRY(gs_parse_model(p, "the end", net));
    if (p->words.here.length > 0)
        return gs_words_wrong(&p->words, "expected ',' or the end%s",
                              *p->words.here.at == ')' ? "; no '(' is open" : "");
    for (int i = 0; i < p->blocks; i++) {
        gs_word name = p->block[i].name;
        if (!p->block[i].used)
            return gs_fail(GS_E_MODEL, "model text: block %.*s is not used", (int)name.length, name.at);
    }
    return GS_OK;
}

gs_status gs_model_parse(const char *name_or_text, gs_layer **net) {
    char *text;
    *net = NULL;
    GS_TRY(gs_model_full_text(name_or_text, &text));
    gs_parser p = {.words.text = text};
    gs_words_begin(&p.words, text);
    gs_status st = parse_text(&p, net);
    free(text);
    if (st == GS_OK) return GS_OK;
    gs_layer_free(*net);
    *net = NULL;
    return st;
}
