/* A recursive-descent parser for the grammar in model_text.h: one function per rule, one word of lookahead. The reverse
 * direction, from a net to its text, is at the end. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/memory.h"
#include "core/text.h"
#include "core/units.h"
#include "layer/make.h"
#include "model/model_text.h"

/* ---- words ---- */

/* A word ends at a space or at one of the signs , ( ) | ; =. In the body of a block, a word that names a parameter is
 * replaced by its value, so the rules that read words need not know about blocks. */

enum {
    NUMBER_MOST = 1000000, /* maximum value of a number */
    BLOCK_PARAMS = 8,      /* maximum number of parameters of a block */
};

/* A word of the text, without a final '\0'. */
typedef struct text_word {
    const char *at;
    size_t length;
} text_word;

/* "block NAME PARAM ... = body ;" */
typedef struct text_block {
    text_word name, param[BLOCK_PARAMS];
    int params;
    const char *body; /* its first character */
    bool used;
} text_block;

typedef struct text_words {
    const char *text;
    text_word here;   /* the lookahead: a word, a sign, or the end (length 0) */
    const char *next; /* the text after it */
    /* The block whose body is being read, or NULL, and the values of its parameters. */
    const text_block *block;
    text_word value[BLOCK_PARAMS];
} text_words;

static bool is_sign(char c) {
    return c != '\0' && strchr(",()|;=", c) != NULL;
}

static bool is_space(char c) {
    return c != '\0' && strchr(" \t\r\n", c) != NULL;
}

/* The word or sign after any spaces at `from`. */
static text_word word_at(const char *from) {
    while (is_space(*from)) from++;
    const char *end = from;
    if (is_sign(*end)) return (text_word){from, 1};
    while (*end && !is_sign(*end) && !is_space(*end)) end++;
    return (text_word){from, (size_t)(end - from)};
}

static bool word_same(text_word a, text_word b) {
    return a.length == b.length && memcmp(a.at, b.at, a.length) == 0;
}

static void words_advance(text_words *w) {
    w->here = word_at(w->next);
    w->next = w->here.at + w->here.length;
    for (int i = 0; w->block && i < w->block->params; i++)
        if (word_same(w->here, w->block->param[i])) {
            w->here = w->value[i];
            return;
        }
}

static void words_begin(text_words *w, const char *from) {
    w->next = from;
    words_advance(w);
}

static bool word_is(text_word word, const char *text) {
    return word.at && word.length == strlen(text) && memcmp(word.at, text, word.length) == 0;
}

/* True for a sign; the end of the text is neither a word nor a sign. */
static bool word_is_sign(text_word word) {
    return word.length > 0 && is_sign(*word.at);
}

/* If the lookahead is this word or sign, advance. */
static bool words_accept(text_words *w, const char *word) {
    bool found = word_is(w->here, word);
    if (found) words_advance(w);
    return found;
}

/* ---- error messages ---- */

/* The number of words, not counting signs, that begin at or before `place`. */
static int number_of(const char *text, const char *place) {
    int words = 0;
    for (text_word w = word_at(text); w.length > 0 && w.at <= place; w = word_at(w.at + w.length))
        words += !is_sign(*w.at);
    return words;
}

/* GS_E_MODEL: "model text: word 5 ('rellu', column 19): ..." */
static gs_status GS_PRINTF(2, 3) words_wrong(const text_words *w, const char *format, ...) {
    char problem[600], word[100], place[160];
    va_list args;
    va_start(args, format);
    vsnprintf(problem, sizeof problem, format, args);
    va_end(args);
    snprintf(word, sizeof word, "%.*s", (int)w->here.length, w->here.at);
    int column = (int)(w->here.at - w->text) + 1, number = number_of(w->text, w->here.at);
    if (w->here.length == 0)
        snprintf(place, sizeof place, "the end (column %d)", column);
    else if (is_sign(*w->here.at))
        snprintf(place, sizeof place, "'%s' after word %d (column %d)", word, number, column);
    else
        snprintf(place, sizeof place, "word %d ('%s', column %d)", number, gs_printable(word), column);
    return gs_fail(GS_E_MODEL, "model text: %s: %s", place, problem);
}

/* out = "did you mean relu? " for the nearest of `words` (NULL-terminated), if one is near enough; else "". */
static void words_suggest(const text_words *w, const char *const *words, char *out, size_t size) {
    const char *nearest = gs_nearest(w->here.at, w->here.length, words);
    out[0] = '\0';
    if (nearest) snprintf(out, size, "did you mean %s? ", nearest);
}

/* ---- numbers; `what` is for messages ---- */

typedef struct size2d {
    int h, w;
} size2d;

/* The value of a word of digits, up to NUMBER_MOST; -1 for anything else. */
static int whole_number(const char *digits, size_t length) {
    int number = 0;
    if (length == 0) return -1;
    for (size_t i = 0; i < length; i++) {
        if (digits[i] < '0' || digits[i] > '9') return -1;
        number = number * 10 + (digits[i] - '0');
        if (number > NUMBER_MOST) return -1;
    }
    return number;
}

static bool words_at_count(const text_words *w, int *out) {
    *out = whole_number(w->here.at, w->here.length);
    return *out >= 1;
}

static gs_status words_count(text_words *w, const char *what, int *out) {
    if (!words_at_count(w, out))
        return words_wrong(w, "expected %s, a whole number from 1 to %d", what, NUMBER_MOST);
    words_advance(w);
    return GS_OK;
}

/* Read K or HxW; each number must be at least `least`. */
static gs_status words_size(text_words *w, const char *what, int least, size2d *out) {
    const char *at = w->here.at, *x = w->here.length ? memchr(at, 'x', w->here.length) : NULL;
    size_t first = x ? (size_t)(x - at) : w->here.length;
    out->h = whole_number(at, first);
    out->w = x ? whole_number(x + 1, w->here.length - first - 1) : out->h;
    if (out->h < least || out->w < least)
        return words_wrong(w, "expected %s, K or HxW with whole numbers from %d to %d", what, least,
                           NUMBER_MOST);
    words_advance(w);
    return GS_OK;
}

/* Read digits, with at most one point. */
static bool decimal(text_word word, float *out) {
    const char *end = word.at;
    double value = 0;
    const bool whole = gs_unit_read(&end, gs_units_none, &value) && end == word.at + word.length;
    *out = (float)value;
    return whole;
}

static gs_status words_chance(text_words *w, const char *what, float *out) {
    if (!decimal(w->here, out) || !(*out < 1))
        return words_wrong(w, "expected %s: a decimal from 0 to below 1, such as 0.5", what);
    words_advance(w);
    return GS_OK;
}

/* Read a decimal from 0.0001 to 100. */
static gs_status words_decimal(text_words *w, const char *what, float *out) {
    if (!decimal(w->here, out) || !(*out >= 1e-4f && *out <= 100))
        return words_wrong(w, "expected %s: a decimal from 0.0001 to 100, such as 0.02", what);
    words_advance(w);
    return GS_OK;
}

/* ---- names ---- */

/* The model named by the text's first word, or NULL. *rest: the words after it. */
static const gs_named_model *find_model(const char *text, text_words *rest) {
    *rest = (text_words){.text = text};
    words_begin(rest, text);
    for (const gs_named_model *m = gs_models; m->name; m++)
        if (words_accept(rest, m->name)) return m;
    return NULL;
}

const gs_named_model *gs_model_named(const char *name_or_text) {
    text_words rest;
    return find_model(name_or_text, &rest);
}

static bool is_language(const gs_named_model *m) {
    return m && m->in.t > 0;
}

bool gs_model_is_language(const char *name_or_text) {
    return is_language(gs_model_named(name_or_text));
}

/* Where the model's text holds the number that the 96 of "gpt 96" or the 100 of "resnet20 100" replaces. */
static const char *number_in(const gs_named_model *m) {
    static const char before[] = "embedding ";
    return is_language(m) ? strstr(m->text, before) + sizeof before - 1 : strrchr(m->text, ' ') + 1;
}

gs_status gs_model_full_text(const char *name_or_text, char **text) {
    text_words rest;
    const gs_named_model *m = find_model(name_or_text, &rest);
    const char *from = m ? m->text : name_or_text;
    int classes = 0;
    *text = NULL;
    if (m && rest.here.length > 0) {
        const char *what = is_language(m) ? "the size of the vocabulary" : "the number of classes";
        char expected[64];
        snprintf(expected, sizeof expected, "the end, or %s", what);
        GS_TRY(words_count(&rest, expected, &classes));
        if (rest.here.length > 0) return words_wrong(&rest, "expected the end after %s", what);
    }
    const char *number = classes > 0 ? number_in(m) : NULL;
    const int length = number ? asprintf(text, "%.*s%d%s", (int)(number - from), from, classes,
                                         number + strspn(number, "0123456789"))
                              : asprintf(text, "%s", from);
    if (length >= 0) return GS_OK;
    *text = NULL;
    return gs_fail(GS_E_MEMORY, "no memory for the text of a model, %zu characters", strlen(from));
}

/* ---- the parser ---- */

enum { BLOCKS_MOST = 64 };

typedef struct parser {
    text_words words;
    text_block block[BLOCKS_MOST];
    int blocks; /* number of visible blocks: those defined earlier */
    int depth, layers;
    int uses; /* uses of blocks so far */
} parser;

/* Enter a level of parentheses or blocks; fails if there are too many levels. */
static gs_status go_deeper(parser *);
/* A list of layers as a `sequential`, up to the first word that cannot continue it. */
static gs_status parse_model(parser *, const char *end, gs_layer **net);

/* ---- layers ---- */

static gs_status parse_linear(parser *p, gs_layer **l) {
    int out;
    GS_TRY(words_count(&p->words, "the number of outputs of linear", &out));
    bool bias = !words_accept(&p->words, "no_bias");
    *l = gs_linear(out, bias);
    return GS_OK;
}

static gs_status parse_conv(parser *p, gs_layer **l) {
    int out;
    int groups = 1;
    size2d kernel, stride = {1, 1}, pad = {0, 0}, dilation = {1, 1};
    GS_TRY(words_count(&p->words, "the number of output channels of conv", &out));
    GS_TRY(words_size(&p->words, "the size of conv's kernel", 1, &kernel));
    if (words_accept(&p->words, "stride")) GS_TRY(words_size(&p->words, "conv's stride", 1, &stride));
    if (words_accept(&p->words, "pad")) GS_TRY(words_size(&p->words, "conv's padding", 0, &pad));
    if (words_accept(&p->words, "groups"))
        GS_TRY(words_count(&p->words, "the number of groups of conv", &groups));
    if (words_accept(&p->words, "dilation")) GS_TRY(words_size(&p->words, "conv's dilation", 1, &dilation));
    bool bias = !words_accept(&p->words, "no_bias");
    *l = gs_conv2d_grouped(out, kernel.h, kernel.w, stride.h, stride.w, pad.h, pad.w, groups, dilation.h,
                           dilation.w, bias);
    return GS_OK;
}

static gs_status parse_pool(parser *p, __typeof__(gs_max_pool2d) *make, gs_layer **l) {
    size2d kernel, stride, pad = {0, 0};
    GS_TRY(words_size(&p->words, "the size of the pooling's window", 1, &kernel));
    stride = kernel;
    if (words_accept(&p->words, "stride")) GS_TRY(words_size(&p->words, "the pooling's stride", 1, &stride));
    if (words_accept(&p->words, "pad")) GS_TRY(words_size(&p->words, "the pooling's padding", 0, &pad));
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
    GS_TRY(words_count(&p->words, "the number of heads of attention", &heads));
    *l = gs_attention(heads, words_accept(&p->words, "causal"));
    return GS_OK;
}

static gs_status parse_embedding(parser *p, gs_layer **l) {
    int rows, width;
    GS_TRY(words_count(&p->words, "the number of vectors of embedding", &rows));
    GS_TRY(words_count(&p->words, "the width of embedding's vectors", &width));
    *l = gs_embedding(rows, width);
    return GS_OK;
}

static gs_status parse_gelu(parser *p, gs_layer **l) {
    *l = words_accept(&p->words, "tanh") ? gs_gelu_tanh() : gs_gelu();
    return GS_OK;
}

#define PARSE_NUMBER(name, type, read, usage, expected, what)                                                \
    static gs_status parse_##name(parser *p, gs_layer **l) {                                                 \
        type number;                                                                                         \
        GS_TRY(words_##read(&p->words, expected, &number));                                                  \
        *l = gs_##name(number);                                                                              \
        return GS_OK;                                                                                        \
    }
GS_NUMBER_LAYERS(PARSE_NUMBER)

static gs_status parse_residual(parser *p, gs_layer **l) {
    gs_layer *body, *shortcut = NULL;
    if (!word_is(p->words.here, "("))
        return words_wrong(&p->words, "expected '(' and the layers of the residual block");
    GS_TRY(go_deeper(p));
    words_advance(&p->words);
    GS_TRY(parse_model(p, "'|' or ')'", &body));
    gs_status st = GS_OK;
    if (words_accept(&p->words, "|")) st = parse_model(p, "')'", &shortcut);
    if (st == GS_OK && !words_accept(&p->words, ")"))
        st = words_wrong(&p->words, "expected ')' to end the residual block");
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
#define NUMBER(name, type, read, usage, expected, what) {#name, usage, parse_##name, NULL, what},

enum { WORDS_MOST = 40 }; /* maximum number of layers' words, including callers' own */

/* Each layer's word, and the rule for its arguments or, if it has none, its constructor. A NULL word ends the table. */
static struct {
    const char *word, *usage;
    gs_status (*parse)(parser *, gs_layer **);
    gs_layer *(*make)(void);
    const char *what;
} layers[WORDS_MOST + 1] = {
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
    /* clang-format off */
    GS_NUMBER_LAYERS(NUMBER)
    /* clang-format on */
    {"residual", "residual ( BODY [| SHORTCUT] )", parse_residual, NULL,
     "BODY(x) + x, or + SHORTCUT(x): both models"},
};

bool gs_model_layer_help(int i, const char **usage, const char **what) {
    if (!layers[i].word) return false;
    *usage = layers[i].usage;
    *what = layers[i].what;
    return true;
}

/* Only a text of one word may be a misspelt model name. */
static bool is_alone(const text_words *w) {
    text_words first = {.text = w->text}, next = *w;
    words_begin(&first, first.text);
    words_advance(&next);
    return w->here.at == first.here.at && next.here.length == 0;
}

static gs_status no_such_layer(const parser *p) {
    enum { MODELS_MOST = 20 };
    const char *names[WORDS_MOST + BLOCKS_MOST + MODELS_MOST + 1] = {NULL};
    char block[BLOCKS_MOST][32], list[600] = "", models[120] = "", hint[64] = "";
    const text_word here = p->words.here;
    const bool alone = is_alone(&p->words);
    int n = 0;
    for (int i = 0; layers[i].word; i++) names[n++] = layers[i].word;
    for (int i = 0; i < p->blocks; i++) {
        snprintf(block[i], sizeof block[i], "%.*s", (int)p->block[i].name.length, p->block[i].name.at);
        names[n++] = block[i];
    }
    for (int i = 0; i < n; i++) gs_append(list, sizeof list, "%s%s", i > 0 ? ", " : "", names[i]);
    for (int i = 0; alone && gs_models[i].name && i < MODELS_MOST; i++) {
        gs_append(models, sizeof models, "%s%s", i > 0 ? ", " : "", gs_models[i].name);
        names[n++] = gs_models[i].name;
    }
    if (here.length == 0) return words_wrong(&p->words, "expected one of %s", list);
    if (word_is_sign(here)) return words_wrong(&p->words, "expected a layer, one of %s", list);
    if (word_is(here, "block"))
        return words_wrong(&p->words, "blocks are defined before the model, and each ends with ';'");
    if (p->words.block && word_same(p->words.block->name, here))
        return words_wrong(&p->words, "a block cannot use itself");
    words_suggest(&p->words, names, hint, sizeof hint);
    if (!alone) return words_wrong(&p->words, "unknown layer; %sexpected one of %s", hint, list);
    if (access(p->words.text, R_OK) == 0)
        return words_wrong(&p->words, "it is a file; to pass its text, write \"$(cat %s)\", with the quotes",
                           gs_printable(p->words.text));
    return words_wrong(&p->words, "unknown model or layer; %sexpected a model (%s) or layers, each one of %s",
                       hint, models, list);
}

/* The optional "std S" after a layer. A failure frees the layer. */
static gs_status parse_std(parser *p, int kind, gs_layer *l) {
    float std;
    if (!strstr(layers[kind].usage, "[std S]") || !words_accept(&p->words, "std")) return GS_OK;
    gs_status st = words_decimal(&p->words, "the standard deviation of the initial weights", &std);
    if (st == GS_OK)
        gs_layer_with_std(l, std);
    else
        gs_layer_free(l);
    return st;
}

static gs_status parse_layer(parser *p, int *kind, gs_layer **l) {
    for (*kind = 0; layers[*kind].word; ++*kind) {
        if (!words_accept(&p->words, layers[*kind].word)) continue;
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
    return p->words.here.length == 0 || word_is_sign(p->words.here);
}

static const char *const options[] = {"stride", "pad",  "groups", "dilation", "no_bias",
                                      "std",    "tanh", "causal", NULL},
                         *const no_options[] = {NULL};

/* Check that a comma or the end of this model follows a layer. */
static gs_status check_layer_ends(const parser *p, const char *end, int kind) {
    if (is_end(p)) return GS_OK;
    char hint[64];
    bool has_options = strchr(layers[kind].usage, '[') && layers[kind].parse != parse_residual;
    words_suggest(&p->words, has_options ? options : no_options, hint, sizeof hint);
    return words_wrong(&p->words, "%sexpected ',' or %s; this layer is written: %s", hint, end,
                       layers[kind].usage);
}

static bool is_reserved(text_word word) {
    bool is = word_is(word, "x") || word_is(word, "block");
    for (int i = 0; layers[i].word; i++) is = is || word_is(word, layers[i].word);
    for (const char *const *option = options; *option; option++) is = is || word_is(word, *option);
    return is;
}

gs_status gs_model_add_layer(const char *word, gs_layer *(*make)(void)) {
    const text_word w = word_at(word);
    int count = 0;
    while (layers[count].word) count++;
    if (w.length == 0 || w.length != strlen(word) || is_sign(*word) || strchr("0123456789", *word))
        return gs_fail(GS_E_USAGE, "'%s' is no word for a layer; wanted letters, such as prelu", word);
    if (is_reserved(w) || gs_model_named(word))
        return gs_fail(GS_E_USAGE, "'%s' is a word of model texts already; wanted another for a layer", word);
    if (count == WORDS_MOST)
        return gs_fail(GS_E_USAGE, "no room for the layer '%s': there are %d words, the most", word, count);
    layers[count].word = layers[count].usage = word;
    layers[count].make = make;
    layers[count].what = "a layer of the program's own";
    return GS_OK;
}

/* ---- lists, repetitions and blocks, and the text as a whole ---- */

enum {
    MAX_DEPTH = 32,     /* of parentheses and nested blocks; each is a level of recursion */
    MAX_LAYERS = 10000, /* maximum in a text, counting repetitions */
};

typedef struct list {
    gs_layer **layer;
    int count;
    size_t room;
} list;

static gs_status add(parser *p, list *a, gs_layer *l) {
    if (++p->layers > MAX_LAYERS) {
        gs_layer_free(l);
        return words_wrong(&p->words, "the model has more than %d layers", MAX_LAYERS);
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
    return words_wrong(&p->words, "parentheses and blocks are nested more than %d deep", MAX_DEPTH);
}

/* For "3 x ITEM" or "3 x ( LIST )", parse the text after x 3 times. */
static gs_status parse_repeated(parser *p, const char *end, int times, list *a) {
    words_advance(&p->words);
    words_advance(&p->words);
    const text_words what = p->words;
    GS_TRY(go_deeper(p));
    for (int i = 0; i < times; i++) {
        p->words = what;
        if (!words_accept(&p->words, "(")) {
            GS_TRY(parse_item(p, end, a));
            continue;
        }
        GS_TRY(parse_list(p, "')'", a));
        if (!words_accept(&p->words, ")")) return words_wrong(&p->words, "expected ',' or ')'");
        if (!is_end(p)) return words_wrong(&p->words, "expected ',' or %s", end);
    }
    p->depth--;
    return GS_OK;
}

/* For "same 16", add the layers of the block `same`, with 16 as its parameter. */
static gs_status parse_block(parser *p, const char *end, int number, list *a) {
    text_block *block = &p->block[number];
    text_words body = {.text = p->words.text, .block = block};
    block->used = true;
    words_advance(&p->words);
    for (int i = 0; i < block->params; i++) {
        if (is_end(p))
            return words_wrong(&p->words, "expected %.*s of block %.*s", (int)block->param[i].length,
                               block->param[i].at, (int)block->name.length, block->name.at);
        body.value[i] = p->words.here;
        words_advance(&p->words);
    }
    if (!is_end(p))
        return words_wrong(&p->words, "expected ',' or %s: block %.*s has %d parameter%s", end,
                           (int)block->name.length, block->name.at, block->params, gs_s(block->params));
    const text_words after = p->words;
    const int named = p->blocks, first = a->count, use = ++p->uses;
    GS_TRY(go_deeper(p));
    p->words = body;
    p->blocks = number; /* a block sees only earlier blocks, so none can contain itself */
    words_begin(&p->words, block->body);
    GS_TRY(parse_list(p, "';'", a));
    if (!word_is(p->words.here, ";")) return words_wrong(&p->words, "expected ',' or ';'");
    for (int i = first; i < a->count; i++) a->layer[i]->block = use; /* the outermost block overrides */
    p->words = after;
    p->blocks = named;
    p->depth--;
    return GS_OK;
}

static gs_status parse_item(parser *p, const char *end, list *a) {
    text_words next = p->words;
    gs_layer *l;
    int times, kind;
    words_advance(&next);
    if (words_at_count(&p->words, &times) && word_is(next.here, "x")) return parse_repeated(p, end, times, a);
    if (word_is(p->words.here, "0") && word_is(next.here, "x"))
        return words_wrong(&p->words, "expected how many times, a whole number from 1 up");
    for (int i = 0; i < p->blocks; i++)
        if (word_same(p->block[i].name, p->words.here)) return parse_block(p, end, i, a);
    GS_TRY(parse_layer(p, &kind, &l));
    GS_TRY(add(p, a, l));
    return check_layer_ends(p, end, kind);
}

static gs_status parse_list(parser *p, const char *end, list *a) {
    do GS_TRY(parse_item(p, end, a));
    while (words_accept(&p->words, ","));
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

/* Read a word that is not yet in use, for the name or a parameter of block `b`. */
static gs_status parse_new_word(parser *p, const text_block *b, const char *what, text_word *out) {
    const text_word here = p->words.here;
    bool letter =
        here.length > 0 && ((*here.at >= 'a' && *here.at <= 'z') || (*here.at >= 'A' && *here.at <= 'Z'));
    if (!letter) return words_wrong(&p->words, "expected %s, a word that begins with a letter", what);
    bool taken = is_reserved(here);
    for (int i = 0; i < p->blocks; i++) taken = taken || word_same(here, p->block[i].name);
    for (int i = 0; i < b->params; i++) taken = taken || word_same(here, b->param[i]);
    taken = taken || (b->name.at && word_same(here, b->name));
    if (taken) return words_wrong(&p->words, "expected %s, but this word has a meaning already", what);
    *out = here;
    words_advance(&p->words);
    return GS_OK;
}

/* Read what follows "block": "NAME PARAM ... = body ;". The body is parsed at each use. */
static gs_status define_block(parser *p) {
    text_block b = {0};
    if (p->blocks == BLOCKS_MOST) return words_wrong(&p->words, "there are more than %d blocks", BLOCKS_MOST);
    GS_TRY(parse_new_word(p, &b, "the name of a block", &b.name));
    while (!is_end(p)) {
        if (b.params == BLOCK_PARAMS)
            return words_wrong(&p->words, "a block has at most %d parameters", BLOCK_PARAMS);
        GS_TRY(parse_new_word(p, &b, "a parameter of the block", &b.param[b.params]));
        b.params++;
    }
    if (!word_is(p->words.here, "="))
        return words_wrong(&p->words, "expected '=' and the layers of the block");
    b.body = p->words.next;
    while (!word_is(p->words.here, ";")) {
        words_advance(&p->words);
        if (p->words.here.length == 0)
            return words_wrong(&p->words, "expected ';' to end block %.*s", (int)b.name.length, b.name.at);
    }
    words_advance(&p->words);
    p->block[p->blocks++] = b;
    return GS_OK;
}

static gs_status parse_text(parser *p, gs_layer **net) {
    while (words_accept(&p->words, "block")) GS_TRY(define_block(p));
    GS_TRY(parse_model(p, "the end", net));
    if (p->words.here.length > 0)
        return words_wrong(&p->words, "expected ',' or the end%s",
                           *p->words.here.at == ')' ? "; no '(' is open" : "");
    for (int i = 0; i < p->blocks; i++) {
        text_word name = p->block[i].name;
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
    words_begin(&p.words, text);
    gs_status st = parse_text(&p, net);
    free(text);
    if (st == GS_OK) return GS_OK;
    gs_layer_free(*net);
    *net = NULL;
    return st;
}

/* ---- the text of a net ---- */

static void write_layer(FILE *f, const gs_layer *l);

/* Write a "model" of the grammar: a sequence is written as its layers. */
static void write_model(FILE *f, const gs_layer *l) {
    if (!gs_layer_is_sequence(l)) write_layer(f, l);
    for (int i = 0; gs_layer_is_sequence(l) && i < l->children; i++) {
        if (i > 0) fputs(", ", f);
        write_layer(f, l->child[i]);
    }
}

static void write_layer(FILE *f, const gs_layer *l) {
    char what[128];
    gs_layer_describe(l, what, sizeof what);
    const bool residual = gs_layer_is_residual(l), bracketed = residual || gs_layer_is_sequence(l);
    if (!gs_layer_is_sequence(l)) fputs(what, f);
    if (bracketed) fputs(residual ? " (" : "(", f);
    if (bracketed) write_model(f, residual ? l->child[0] : l);
    if (residual && l->children > 1) fputs(" | ", f);
    if (residual && l->children > 1) write_model(f, l->child[1]);
    if (bracketed) fputs(")", f);
}

char *gs_model_text_of(const gs_layer *net) {
    char *text = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    if (!f) return NULL;
    write_model(f, net);
    bool failed = ferror(f) != 0;
    if (fclose(f) == 0 && !failed) return text;
    free(text);
    return NULL;
}
