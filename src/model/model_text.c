/* The layers of the grammar in model_text.h: one function for each rule. What they are put together with, lists,
 * repetitions and blocks, is in model_blocks.c. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/text.h"
#include "model/model_parser.h"
#include "model/model_text.h"

static void append(char *text, size_t size, const char *separator, const char *word) {
    size_t used = strlen(text);
    snprintf(text + used, size - used, "%s%s", used ? separator : "", word);
}

/* ---- layers ---- */

static gs_status parse_linear(gs_parser *p, gs_layer **l) {
    int out;
    GS_TRY(gs_words_count(&p->words, "the number of outputs of linear", &out));
    bool bias = !gs_words_accept(&p->words, "no_bias");
    *l = gs_linear(out, bias);
    return GS_OK;
}

static gs_status parse_conv(gs_parser *p, gs_layer **l) {
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

static gs_status parse_pool(gs_parser *p, __typeof__(gs_max_pool2d) *make, gs_layer **l) {
    gs_size2d kernel, stride, pad = {0, 0};
    GS_TRY(gs_words_size(&p->words, "the size of the pooling's window", 1, &kernel));
    stride = kernel;
    if (gs_words_accept(&p->words, "stride"))
        GS_TRY(gs_words_size(&p->words, "the pooling's stride", 1, &stride));
    if (gs_words_accept(&p->words, "pad")) GS_TRY(gs_words_size(&p->words, "the pooling's padding", 0, &pad));
    *l = make(kernel.h, kernel.w, stride.h, stride.w, pad.h, pad.w);
    return GS_OK;
}

static gs_status parse_max_pool(gs_parser *p, gs_layer **l) {
    return parse_pool(p, gs_max_pool2d, l);
}

static gs_status parse_avg_pool(gs_parser *p, gs_layer **l) {
    return parse_pool(p, gs_avg_pool2d, l);
}

static gs_status parse_attention(gs_parser *p, gs_layer **l) {
    int heads;
    GS_TRY(gs_words_count(&p->words, "the number of heads of attention", &heads));
    *l = gs_attention(heads, gs_words_accept(&p->words, "causal"));
    return GS_OK;
}

static gs_status parse_embedding(gs_parser *p, gs_layer **l) {
    int rows, width;
    GS_TRY(gs_words_count(&p->words, "the number of vectors of embedding", &rows));
    GS_TRY(gs_words_count(&p->words, "the width of embedding's vectors", &width));
    *l = gs_embedding(rows, width);
    return GS_OK;
}

static gs_status parse_gelu(gs_parser *p, gs_layer **l) {
    *l = gs_gelu(gs_words_accept(&p->words, "tanh"));
    return GS_OK;
}

static gs_status parse_dropout(gs_parser *p, gs_layer **l) {
    float chance;
    GS_TRY(gs_words_chance(&p->words, "the probability that dropout clears a number", &chance));
    *l = gs_dropout(chance);
    return GS_OK;
}

static gs_status parse_residual(gs_parser *p, gs_layer **l) {
    gs_layer *body, *shortcut = NULL;
    if (!gs_word_is(p->words.here, "("))
        return gs_words_wrong(&p->words, "expected '(' and the layers of the residual block");
    GS_TRY(gs_parse_deeper(p));
    gs_words_advance(&p->words);
    GS_TRY(gs_parse_model(p, "'|' or ')'", &body));
    gs_status st = GS_OK;
    if (gs_words_accept(&p->words, "|")) st = gs_parse_model(p, "')'", &shortcut);
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
    gs_status (*parse)(gs_parser *, gs_layer **);
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
    const char *names[LAYERS + GS_PARSER_BLOCKS + 1];
    char block[GS_PARSER_BLOCKS][32];
} vocabulary;

static void vocabulary_of(const gs_parser *p, vocabulary *v) {
    int n = 0;
    for (int i = 0; i < LAYERS; i++) v->names[n++] = layers[i].word;
    for (int i = 0; i < p->blocks; i++) {
        snprintf(v->block[i], sizeof v->block[i], "%.*s", (int)p->block[i].name.length, p->block[i].name.at);
        v->names[n++] = v->block[i];
    }
    v->names[n] = NULL;
}

static gs_status no_such_layer(const gs_parser *p) {
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
static gs_status parse_std(gs_parser *p, int kind, gs_layer *l) {
    float std;
    if (!strstr(layers[kind].usage, "[std S]") || !gs_words_accept(&p->words, "std")) return GS_OK;
    gs_status st = gs_words_deviation(&p->words, "the standard deviation of the initial weights", &std);
    if (st == GS_OK)
        gs_layer_with_std(l, std);
    else
        gs_layer_free(l);
    return st;
}

gs_status gs_parse_layer(gs_parser *p, int *kind, gs_layer **l) {
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

bool gs_parse_is_end(const gs_parser *p) {
    return p->words.here.length == 0 || gs_word_is_sign(p->words.here);
}

static const char *const options[] = {"stride", "pad",  "groups", "dilation", "no_bias",
                                      "std",    "tanh", "causal", NULL},
                         *const no_options[] = {NULL};

/* What may stand after a layer: a comma, or what ends this model. */
gs_status gs_parse_layer_ends(const gs_parser *p, const char *end, int kind) {
    if (gs_parse_is_end(p)) return GS_OK;
    char hint[64];
    bool has_options = strchr(layers[kind].usage, '[') && layers[kind].parse != parse_residual;
    gs_words_suggest(&p->words, has_options ? options : no_options, hint, sizeof hint);
    return gs_words_wrong(&p->words, "%sexpected ',' or %s; this layer is written: %s", hint, end,
                          layers[kind].usage);
}

bool gs_parse_is_reserved(gs_word word) {
    bool is = gs_word_is(word, "x") || gs_word_is(word, "block");
    for (int i = 0; i < LAYERS; i++) is = is || gs_word_is(word, layers[i].word);
    for (const char *const *option = options; *option; option++) is = is || gs_word_is(word, *option);
    return is;
}
