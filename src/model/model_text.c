/* A recursive-descent parser of the grammar in model_text.h: one function for each rule, and one word of lookahead. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/text.h"
#include "model/model_text.h"
#include "core/memory.h"
#include "layer/make.h"
#include "model/words.h"

enum { BLOCKS_MOST = 64 };

typedef struct parser {
    gs_words words;
    gs_block block[BLOCKS_MOST];
    int blocks; /* that the present place may name: those before it */
    int depth, layers;
    int uses; /* of blocks, so far */
} parser;

/* One more level of parentheses or blocks: fails if there are too many. */
static gs_status go_deeper(parser *);
/* A list of layers as a `sequential`, up to a word that cannot follow. */
static gs_status parse_model(parser *, const char *end, gs_layer **net);

static void append(char *text, size_t size, const char *separator, const char *word) {
    size_t used = strlen(text);
    snprintf(text + used, size - used, "%s%s", used ? separator : "", word);
}

/* ---- layers ---- */

static gs_status parse_linear(parser *p, gs_layer **l) {
    int out;
    GS_TRY(gs_words_count(&p->words, "the number of outputs of linear", &out));
    bool bias = !gs_words_accept(&p->words, "no_bias");
    *l = gs_linear(out, bias);
    return GS_OK;
}

static gs_status parse_conv(parser *p, gs_layer **l) {
    int out;
    int groups = 1;
    gs_size2d kernel, stride = {1, 1}, pad = {0, 0}, dilation = {1, 1};
    GS_TRY(gs_words_count(&p->words, "the number of output channels of conv", &out));
    GS_TRY(gs_words_size(&p->words, "the size of conv's kernel", 1, &kernel));
    if (gs_words_accept(&p->words, "stride")) GS_TRY(gs_words_size(&p->words, "conv's stride", 1, &stride));
    if (gs_words_accept(&p->words, "pad")) GS_TRY(gs_words_size(&p->words, "conv's padding", 0, &pad));
    if (gs_words_accept(&p->words, "groups"))
        GS_TRY(gs_words_count(&p->words, "the number of groups of conv", &groups));
    if (gs_words_accept(&p->words, "dilation"))
        GS_TRY(gs_words_size(&p->words, "conv's dilation", 1, &dilation));
    bool bias = !gs_words_accept(&p->words, "no_bias");
    *l = gs_conv2d_grouped(out, kernel.h, kernel.w, stride.h, stride.w, pad.h, pad.w, groups, dilation.h,
                           dilation.w, bias);
    return GS_OK;
}

static gs_status parse_pool(parser *p, __typeof__(gs_max_pool2d) *make, gs_layer **l) {
    gs_size2d kernel, stride, pad = {0, 0};
    GS_TRY(gs_words_size(&p->words, "the size of the pooling's window", 1, &kernel));
    stride = kernel;
    if (gs_words_accept(&p->words, "stride"))
        GS_TRY(gs_words_size(&p->words, "the pooling's stride", 1, &stride));
    if (gs_words_accept(&p->words, "pad")) GS_TRY(gs_words_size(&p->words, "the pooling's padding", 0, &pad));
    *l = make(kernel.h, kernel.w, stride.h, stride.w, pad.h, pad.w);
    return GS_OK;
}

static gs_status parse_max_pool(parser *p, gs_layer **l) {
    return parse_pool(p, gs_max_pool2d, l);
}

static gs_status parse_avg_pool(parser *p, gs_layer **l) {
    return parse_pool(p, gs_avg_pool2d, l);
}

static gs_status parse_attention(parser *p, gs_layer **l) {
    int heads;
    GS_TRY(gs_words_count(&p->words, "the number of heads of attention", &heads));
    *l = gs_attention(heads, gs_words_accept(&p->words, "causal"));
    return GS_OK;
}

static gs_status parse_embedding(parser *p, gs_layer **l) {
    int rows, width;
    GS_TRY(gs_words_count(&p->words, "the number of vectors of embedding", &rows));
    GS_TRY(gs_words_count(&p->words, "the width of embedding's vectors", &width));
    *l = gs_embedding(rows, width);
    return GS_OK;
}

static gs_status parse_gelu(parser *p, gs_layer **l) {
    *l = gs_gelu(gs_words_accept(&p->words, "tanh"));
    return GS_OK;
}

static gs_status parse_dropout(parser *p, gs_layer **l) {
    float chance;
    GS_TRY(gs_words_chance(&p->words, "the probability that dropout clears a number", &chance));
    *l = gs_dropout(chance);
    return GS_OK;
}

static gs_status parse_residual(parser *p, gs_layer **l) {
    gs_layer *body, *shortcut = NULL;
    if (!gs_word_is(p->words.here, "("))
        return gs_words_wrong(&p->words, "expected '(' and the layers of the residual block");
    GS_TRY(go_deeper(p));
    gs_words_advance(&p->words);
    GS_TRY(parse_model(p, "'|' or ')'", &body));
    gs_status st = GS_OK;
    if (gs_words_accept(&p->words, "|")) st = parse_model(p, "')'", &shortcut);
    if (st == GS_OK && !gs_words_accept(&p->words, ")"))
        st = gs_words_wrong(&p->words, "expected ')' to end the residual block");
    if (st != GS_OK) {
        gs_layer_free(shortcut);
        gs_layer_free(body);
        return st;
    }
    p->depth--;
    *l = gs_residual(body, shortcut);
    return GS_OK;
}

#define WORD(name, what) {#name, #name, NULL, gs_##name, what},

/* Every layer's word, and either the rule for what follows it or, where nothing follows, its constructor. */
static const struct {
    const char *word, *usage;
    gs_status (*parse)(parser *, gs_layer **);
    gs_layer *(*make)(void);
    const char *what;
} layers[] = {
    {"linear", "linear OUT [no_bias] [std S]", parse_linear, NULL, "OUT numbers, each from the whole input"},
    {"conv", "conv OUT SIZE [stride SIZE] [pad SIZE] [groups G] [dilation SIZE] [no_bias] [std S]",
     parse_conv, NULL, "OUT channels; by default stride 1, pad 0"},
    {"max_pool", "max_pool SIZE [stride SIZE] [pad SIZE]", parse_max_pool, NULL,
     "by default the stride is SIZE, the window's"},
    {"avg_pool", "avg_pool SIZE [stride SIZE] [pad SIZE]", parse_avg_pool, NULL, "the same"},
    /* clang-format off */
    GS_WORD_LAYERS(WORD)
    /* clang-format on */
    {"embedding", "embedding V D [std S]", parse_embedding, NULL,
     "token numbers below V become vectors of D"},
    {"positions", "positions [std S]", NULL, gs_positions, "adds a learned vector for each place"},
    {"tied", "tied", NULL, gs_tied, "linear no_bias with embedding's table"},
    {"attention", "attention HEADS [causal]", parse_attention, NULL,
     "of tokens (q, k, v), as linear makes them"},
    {"gelu", "gelu [tanh]", parse_gelu, NULL, "x Phi(x); tanh: nearly that, as in GPT-2"},
    {"dropout", "dropout P", parse_dropout, NULL, "in training, clears each with probability P"},
    {"residual", "residual ( BODY [| SHORTCUT] )", parse_residual, NULL,
     "BODY(x) + x, or + SHORTCUT(x): both models"},
};
enum { LAYERS = sizeof layers / sizeof *layers };

bool gs_model_layer_help(int i, const char **usage, const char **what) {
    if (i >= LAYERS) return false;
    *usage = layers[i].usage;
    *what = layers[i].what;
    return true;
}

/* The words of all layers and blocks, in `names`; NULL after the last one. */
typedef struct vocabulary {
    const char *names[LAYERS + BLOCKS_MOST + 1];
    char block[BLOCKS_MOST][32];
} vocabulary;

static void vocabulary_of(const parser *p, vocabulary *v) {
    int n = 0;
    for (int i = 0; i < LAYERS; i++) v->names[n++] = layers[i].word;
    for (int i = 0; i < p->blocks; i++) {
        snprintf(v->block[i], sizeof v->block[i], "%.*s", (int)p->block[i].name.length, p->block[i].name.at);
        v->names[n++] = v->block[i];
    }
    v->names[n] = NULL;
}

static gs_status no_such_layer(const parser *p) {
    vocabulary v;
    char list[600] = "", names[120] = "", hint[64] = "";
    vocabulary_of(p, &v);
    for (const char **word = v.names; *word; word++) append(list, sizeof list, ", ", *word);
    const gs_word here = p->words.here;
    if (here.length == 0) return gs_words_wrong(&p->words, "expected one of %s", list);
    if (gs_word_is_sign(here)) return gs_words_wrong(&p->words, "expected a layer, one of %s", list);
    if (gs_word_is(here, "block"))
        return gs_words_wrong(&p->words, "blocks are defined before the model, and each ends with ';'");
    if (p->words.block && gs_word_same(p->words.block->name, here))
        return gs_words_wrong(&p->words, "a block cannot use itself");
    gs_words_suggest(&p->words, v.names, hint, sizeof hint);

    /* A text of one word may have been meant as the name of a model. */
    gs_words first = {.text = p->words.text}, next = p->words;
    gs_words_begin(&first, first.text);
    gs_words_advance(&next);
    if (here.at != first.here.at || next.here.length > 0)
        return gs_words_wrong(&p->words, "unknown layer; %sexpected one of %s", hint, list);
    if (access(first.text, R_OK) == 0)
        return gs_words_wrong(&p->words,
                              "it is a file; to pass its text, write \"$(cat %s)\", with the quotes",
                              gs_printable(first.text));
    if (!hint[0]) gs_words_suggest(&p->words, gs_model_names(), hint, sizeof hint);
    for (const char *const *name = gs_model_names(); *name; name++) append(names, sizeof names, ", ", *name);
    return gs_words_wrong(&p->words,
                          "unknown model or layer; %sexpected a model (%s) or layers, each one of %s", hint,
                          names, list);
}

/* The end of every layer that may have "std S" there. A failure frees the layer. */
static gs_status parse_std(parser *p, int kind, gs_layer *l) {
    float std;
    if (!strstr(layers[kind].usage, "[std S]") || !gs_words_accept(&p->words, "std")) return GS_OK;
    gs_status st = gs_words_deviation(&p->words, "the standard deviation of the initial weights", &std);
    if (st == GS_OK)
        gs_layer_with_std(l, std);
    else
        gs_layer_free(l);
    return st;
}

static gs_status parse_layer(parser *p, int *kind, gs_layer **l) {
    for (*kind = 0; *kind < LAYERS; ++*kind) {
        if (!gs_words_accept(&p->words, layers[*kind].word)) continue;
        *l = NULL;
        if (layers[*kind].make)
            *l = layers[*kind].make();
        else
            GS_TRY(layers[*kind].parse(p, l));
        GS_TRY(parse_std(p, *kind, *l));
        return *l ? GS_OK
                  : gs_fail(GS_E_MEMORY, "out of memory for the layer %s of a model", layers[*kind].word);
    }
    return no_such_layer(p);
}

static bool is_end(const parser *p) {
    return p->words.here.length == 0 || gs_word_is_sign(p->words.here);
}

static const char *const options[] = {"stride", "pad",  "groups", "dilation", "no_bias",
                                      "std",    "tanh", "causal", NULL},
                         *const no_options[] = {NULL};

/* What may stand after a layer: a comma, or what ends this model. */
static gs_status check_layer_ends(const parser *p, const char *end, int kind) {
    if (is_end(p)) return GS_OK;
    char hint[64];
    bool has_options = strchr(layers[kind].usage, '[') && layers[kind].parse != parse_residual;
    gs_words_suggest(&p->words, has_options ? options : no_options, hint, sizeof hint);
    return gs_words_wrong(&p->words, "%sexpected ',' or %s; this layer is written: %s", hint, end,
                          layers[kind].usage);
}

static bool is_reserved(gs_word word) {
    bool is = gs_word_is(word, "x") || gs_word_is(word, "block");
    for (int i = 0; i < LAYERS; i++) is = is || gs_word_is(word, layers[i].word);
    for (const char *const *option = options; *option; option++) is = is || gs_word_is(word, *option);
    return is;
}

/* ---- lists, repetitions and blocks, and the text as a whole ---- */

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

static gs_status add(parser *p, list *a, gs_layer *l) {
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

static gs_status parse_list(parser *p, const char *end, list *a);
static gs_status parse_item(parser *p, const char *end, list *a);

static gs_status go_deeper(parser *p) {
    if (p->depth++ < MAX_DEPTH) return GS_OK;
    return gs_words_wrong(&p->words, "parentheses and blocks are nested more than %d deep", MAX_DEPTH);
}

/* "3 x ITEM" or "3 x ( LIST )": what follows the x is read so many times. */
static gs_status parse_repeated(parser *p, const char *end, int times, list *a) {
    gs_words_advance(&p->words);
    gs_words_advance(&p->words);
    const gs_words what = p->words;
    GS_TRY(go_deeper(p));
    for (int i = 0; i < times; i++) {
        p->words = what;
        if (!gs_words_accept(&p->words, "(")) {
            GS_TRY(parse_item(p, end, a));
            continue;
        }
        GS_TRY(parse_list(p, "')'", a));
        if (!gs_words_accept(&p->words, ")")) return gs_words_wrong(&p->words, "expected ',' or ')'");
        if (!is_end(p)) return gs_words_wrong(&p->words, "expected ',' or %s", end);
    }
    p->depth--;
    return GS_OK;
}

/* "same 16": the layers of the block's body, in which its parameters stand for these words. */
static gs_status parse_block(parser *p, const char *end, int number, list *a) {
    gs_block *block = &p->block[number];
    gs_words body = {.text = p->words.text, .block = block};
    block->used = true;
    gs_words_advance(&p->words);
    for (int i = 0; i < block->params; i++) {
        if (is_end(p))
            return gs_words_wrong(&p->words, "expected %.*s of block %.*s", (int)block->param[i].length,
                                  block->param[i].at, (int)block->name.length, block->name.at);
        body.value[i] = p->words.here;
        gs_words_advance(&p->words);
    }
    if (!is_end(p))
        return gs_words_wrong(&p->words, "expected ',' or %s: block %.*s has %d parameter%s", end,
                              (int)block->name.length, block->name.at, block->params, gs_s(block->params));
    const gs_words after = p->words;
    const int named = p->blocks, first = a->count, use = ++p->uses;
    GS_TRY(go_deeper(p));
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

static gs_status parse_item(parser *p, const char *end, list *a) {
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
    GS_TRY(parse_layer(p, &kind, &l));
    GS_TRY(add(p, a, l));
    return check_layer_ends(p, end, kind);
}

static gs_status parse_list(parser *p, const char *end, list *a) {
    do GS_TRY(parse_item(p, end, a));
    while (gs_words_accept(&p->words, ","));
    return GS_OK;
}

static gs_status parse_model(parser *p, const char *end, gs_layer **net) {
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
static gs_status parse_new_word(parser *p, const gs_block *b, const char *what, gs_word *out) {
    const gs_word here = p->words.here;
    bool letter =
        here.length > 0 && ((*here.at >= 'a' && *here.at <= 'z') || (*here.at >= 'A' && *here.at <= 'Z'));
    if (!letter) return gs_words_wrong(&p->words, "expected %s, a word that begins with a letter", what);
    bool taken = is_reserved(here);
    for (int i = 0; i < p->blocks; i++) taken = taken || gs_word_same(here, p->block[i].name);
    for (int i = 0; i < b->params; i++) taken = taken || gs_word_same(here, b->param[i]);
    taken = taken || (b->name.at && gs_word_same(here, b->name));
    if (taken) return gs_words_wrong(&p->words, "expected %s, but this word has a meaning already", what);
    *out = here;
    gs_words_advance(&p->words);
    return GS_OK;
}

/* Behind "block": "NAME PARAM ... = body ;". The body is read where the block is used. */
static gs_status define_block(parser *p) {
    gs_block b = {0};
    if (p->blocks == BLOCKS_MOST)
        return gs_words_wrong(&p->words, "there are more than %d blocks", BLOCKS_MOST);
    GS_TRY(parse_new_word(p, &b, "the name of a block", &b.name));
    while (!is_end(p)) {
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

static gs_status parse_text(parser *p, gs_layer **net) {
    while (gs_words_accept(&p->words, "block")) GS_TRY(define_block(p));
    GS_TRY(parse_model(p, "the end", net));
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
    parser p = {.words.text = text};
    gs_words_begin(&p.words, text);
    gs_status st = parse_text(&p, net);
    free(text);
    if (st == GS_OK) return GS_OK;
    gs_layer_free(*net);
    *net = NULL;
    return st;
}
