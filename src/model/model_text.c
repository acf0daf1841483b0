/* A recursive-descent parser: one function for each rule of the grammar in model_text.h, and one word of
 * lookahead. */
#include "model/model_text.h"
#include "core/memory.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/nearest.h"
#include "core/text.h"

enum {
    MAX_NUMBER = 1000000,
    MAX_DEPTH = 32, /* of parentheses; each level is a level of recursion */
};

typedef struct parser {
    const char *text;
    /* The lookahead: a word, one of "," "(" ")" "|", or the end (length 0). */
    const char *at;
    size_t length;
    int word; /* number of this word, from 1; at a sign or the end: of the word before it */
    int depth;
} parser;

/* ---- reading words ---- */

static bool is_sign(char c) {
    return c != '\0' && strchr(",()|", c) != NULL;
}

static bool is_space(char c) {
    return c != '\0' && strchr(" \t\r\n", c) != NULL;
}

static void advance(parser *p) {
    const char *c = p->at + p->length;
    while (is_space(*c)) c++;
    p->at = c;
    if (is_sign(*c)) {
        p->length = 1;
        return;
    }
    while (*c && !is_sign(*c) && !is_space(*c)) c++;
    p->length = (size_t)(c - p->at);
    if (p->length > 0) p->word++;
}

static bool looking_at(const parser *p, const char *word) {
    return p->length == strlen(word) && memcmp(p->at, word, p->length) == 0;
}

static bool accept(parser *p, const char *word) {
    bool found = looking_at(p, word);
    if (found) advance(p);
    return found;
}

/* ---- saying what is wrong ---- */

/* The lookahead for people: cut when it is long, and with \x.. for what is not a printable character. */
static void quote(const parser *p, char *out, size_t size) {
    size_t used = 0;
    out[0] = '\0';
    for (size_t i = 0; i < p->length; i++) {
        if (used + 9 > size) {
            snprintf(out + used, size - used, "...");
            return;
        }
        unsigned char c = (unsigned char)p->at[i];
        used += (size_t)snprintf(out + used, size - used, c > ' ' && c < 0x7f ? "%c" : "\\x%02x", c);
    }
}

static gs_status wrong(const parser *p, const char *format, ...) GS_PRINTF(2, 3);

/* "model text: word 5 ('rellu', column 19): ..." */
static gs_status wrong(const parser *p, const char *format, ...) {
    char problem[600], word[48], place[128];
    va_list args;
    va_start(args, format);
    vsnprintf(problem, sizeof problem, format, args);
    va_end(args);
    quote(p, word, sizeof word);
    int column = (int)(p->at - p->text) + 1;
    if (p->length == 0)
        snprintf(place, sizeof place, "the end (column %d)", column);
    else if (is_sign(*p->at))
        snprintf(place, sizeof place, "'%s' after word %d (column %d)", word, p->word, column);
    else
        snprintf(place, sizeof place, "word %d ('%s', column %d)", p->word, word, column);
    return gs_fail(GS_E_MODEL, "model text: %s: %s", place, problem);
}

/* The nearest of `words` (ending with NULL), if it is near enough to be meant: "did you mean relu? ", else
 * "". */
static void suggest(const parser *p, const char *const *words, char *out, size_t size) {
    const char *nearest = gs_nearest(p->at, p->length, words);
    out[0] = '\0';
    if (nearest) snprintf(out, size, "did you mean %s? ", nearest);
}

static void append(char *text, size_t size, const char *separator, const char *word) {
    size_t used = strlen(text);
    snprintf(text + used, size - used, "%s%s", used ? separator : "", word);
}

/* ---- numbers ---- */

/* Digits alone, as a number up to MAX_NUMBER; -1 for anything else. */
static int whole_number(const char *digits, size_t length) {
    int number = 0;
    if (length == 0) return -1;
    for (size_t i = 0; i < length; i++) {
        if (digits[i] < '0' || digits[i] > '9') return -1;
        number = number * 10 + (digits[i] - '0');
        if (number > MAX_NUMBER) return -1;
    }
    return number;
}

static gs_status parse_count(parser *p, const char *what, int *out) {
    *out = whole_number(p->at, p->length);
    if (*out < 1) return wrong(p, "expected %s, a whole number from 1 to %d", what, MAX_NUMBER);
    advance(p);
    return GS_OK;
}

typedef struct size2d {
    int h, w;
} size2d;

static gs_status parse_size(parser *p, const char *what, int least, size2d *out) {
    const char *x = p->length ? memchr(p->at, 'x', p->length) : NULL;
    size_t first = x ? (size_t)(x - p->at) : p->length;
    out->h = whole_number(p->at, first);
    out->w = x ? whole_number(x + 1, p->length - first - 1) : out->h;
    if (out->h < least || out->w < least)
        return wrong(p, "expected %s, K or HxW with whole numbers from %d to %d", what, least, MAX_NUMBER);
    advance(p);
    return GS_OK;
}

static size_t digits_at(const char *text, size_t length) {
    size_t digits = 0;
    while (digits < length && text[digits] >= '0' && text[digits] <= '9') digits++;
    return digits;
}

/* A decimal such as 0.25, at least 0 and below 1. By hand, since strtod depends on the user's language. */
static gs_status parse_chance(parser *p, float *out) {
    size_t used = digits_at(p->at, p->length), digits = used;
    double value = 0, unit = 1;
    for (size_t i = 0; i < digits; i++) value = 10 * value + (p->at[i] - '0');
    if (used < p->length && p->at[used] == '.') {
        size_t fraction = digits_at(p->at + used + 1, p->length - used - 1);
        for (size_t i = 1; i <= fraction; i++, unit *= 10) value = 10 * value + (p->at[used + i] - '0');
        used += 1 + fraction;
        digits += fraction;
    }
    *out = (float)(value / unit);
    if (used != p->length || digits < 1 || digits > 9 || !(*out < 1))
        return wrong(p, "expected the probability that dropout clears a number: a decimal from 0 to below 1, "
                        "such as 0.5");
    advance(p);
    return GS_OK;
}

/* ---- layers ---- */

static gs_status parse_linear(parser *p, gs_layer **l) {
    int out;
    GS_TRY(parse_count(p, "the number of outputs of linear", &out));
    bool bias = !accept(p, "no_bias");
    *l = gs_linear(out, bias);
    return GS_OK;
}

static gs_status parse_conv(parser *p, gs_layer **l) {
    int out;
    size2d kernel, stride = {1, 1}, pad = {0, 0};
    GS_TRY(parse_count(p, "the number of output channels of conv", &out));
    GS_TRY(parse_size(p, "the size of conv's kernel", 1, &kernel));
    if (accept(p, "stride")) GS_TRY(parse_size(p, "conv's stride", 1, &stride));
    if (accept(p, "pad")) GS_TRY(parse_size(p, "conv's padding", 0, &pad));
    bool bias = !accept(p, "no_bias");
    *l = gs_conv2d(out, kernel.h, kernel.w, stride.h, stride.w, pad.h, pad.w, bias);
    return GS_OK;
}

static gs_status parse_pool(parser *p, __typeof__(gs_max_pool2d) *make, gs_layer **l) {
    size2d kernel, stride, pad = {0, 0};
    GS_TRY(parse_size(p, "the size of the pooling's window", 1, &kernel));
    stride = kernel;
    if (accept(p, "stride")) GS_TRY(parse_size(p, "the pooling's stride", 1, &stride));
    if (accept(p, "pad")) GS_TRY(parse_size(p, "the pooling's padding", 0, &pad));
    *l = make(kernel.h, kernel.w, stride.h, stride.w, pad.h, pad.w);
    return GS_OK;
}

static gs_status parse_max_pool(parser *p, gs_layer **l) {
    return parse_pool(p, gs_max_pool2d, l);
}

static gs_status parse_avg_pool(parser *p, gs_layer **l) {
    return parse_pool(p, gs_avg_pool2d, l);
}

static gs_status parse_dropout(parser *p, gs_layer **l) {
    float chance;
    GS_TRY(parse_chance(p, &chance));
    *l = gs_dropout(chance);
    return GS_OK;
}

static gs_status parse_model(parser *p, const char *end, gs_layer **net);

static gs_status parse_residual(parser *p, gs_layer **l) {
    gs_layer *body, *shortcut = NULL;
    if (!looking_at(p, "(")) return wrong(p, "expected '(' and the layers of the residual block");
    if (p->depth == MAX_DEPTH) return wrong(p, "parentheses are nested more than %d deep", MAX_DEPTH);
    p->depth++;
    advance(p);
    GS_TRY(parse_model(p, "'|' or ')'", &body));
    gs_status st = GS_OK;
    if (accept(p, "|")) st = parse_model(p, "')'", &shortcut);
    if (st == GS_OK && !accept(p, ")")) st = wrong(p, "expected ')' to end the residual block");
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
    {"linear", "linear OUT [no_bias]", parse_linear, NULL, "OUT numbers, each from the whole input"},
    {"conv", "conv OUT SIZE [stride SIZE] [pad SIZE] [no_bias]", parse_conv, NULL,
     "OUT channels; by default stride 1, pad 0"},
    {"max_pool", "max_pool SIZE [stride SIZE] [pad SIZE]", parse_max_pool, NULL,
     "by default the stride is SIZE, the window's"},
    {"avg_pool", "avg_pool SIZE [stride SIZE] [pad SIZE]", parse_avg_pool, NULL, "the same"},
    /* clang-format off */
    GS_WORD_LAYERS(WORD)
    /* clang-format on */
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

static gs_status no_such_layer(const parser *p) {
    const char *words[LAYERS + 1] = {NULL};
    char list[256] = "", names[64] = "", hint[64] = "";
    for (int i = 0; i < LAYERS; i++) {
        words[i] = layers[i].word;
        append(list, sizeof list, ", ", words[i]);
    }
    if (p->length == 0) return wrong(p, "expected one of %s", list);
    if (is_sign(*p->at)) return wrong(p, "expected a layer, one of %s", list);
    suggest(p, words, hint, sizeof hint);

    /* A text of one word may have been meant as the name of a model. */
    parser next = *p;
    advance(&next);
    if (p->word != 1 || next.length > 0) return wrong(p, "unknown layer; %sexpected one of %s", hint, list);
    if (access(p->text, R_OK) == 0)
        return wrong(p, "it is a file; to pass its text, write \"$(cat %s)\", with the quotes",
                     gs_printable(p->text));
    if (!hint[0]) suggest(p, gs_model_names(), hint, sizeof hint);
    for (const char *const *name = gs_model_names(); *name; name++) append(names, sizeof names, ", ", *name);
    return wrong(p, "unknown model or layer; %sexpected a model (%s) or layers, each one of %s", hint, names,
                 list);
}

static gs_status parse_layer(parser *p, int *kind, gs_layer **l) {
    for (*kind = 0; *kind < LAYERS; ++*kind) {
        if (!accept(p, layers[*kind].word)) continue;
        *l = NULL;
        if (layers[*kind].make)
            *l = layers[*kind].make();
        else
            GS_TRY(layers[*kind].parse(p, l));
        return *l ? GS_OK
                  : gs_fail(GS_E_MEMORY, "out of memory for the layer before word %d of a model", p->word);
    }
    return no_such_layer(p);
}

/* What may stand after a layer: a comma, or what ends this model. */
static gs_status check_end(const parser *p, const char *end, int kind) {
    if (p->length == 0 || is_sign(*p->at)) return GS_OK;
    static const char *const options[] = {"stride", "pad", "no_bias", NULL};
    char hint[64];
    bool has_options = strchr(layers[kind].usage, '[') && layers[kind].parse != parse_residual;
    suggest(p, has_options ? options : options + 3, hint, sizeof hint);
    return wrong(p, "%sexpected ',' or %s; this layer is written: %s", hint, end, layers[kind].usage);
}

typedef struct list {
    gs_layer **layer;
    int count;
    size_t room;
} list;

static gs_status add(list *a, gs_layer *l) {
    if (!gs_grow(&a->layer, (size_t)a->count, &a->room, sizeof *a->layer)) {
        gs_layer_free(l);
        return gs_fail(GS_E_MEMORY, "out of memory for the list of %d layers of a model", a->count + 1);
    }
    a->layer[a->count++] = l;
    return GS_OK;
}

static gs_status parse_list(parser *p, const char *end, list *a) {
    do {
        gs_layer *l;
        int kind;
        GS_TRY(parse_layer(p, &kind, &l));
        GS_TRY(add(a, l));
        GS_TRY(check_end(p, end, kind));
    } while (accept(p, ","));
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

gs_status gs_model_parse(const char *name_or_text, gs_layer **net) {
    const char *text = gs_model_text(name_or_text);
    parser p = {.text = text, .at = text};
    *net = NULL;
    advance(&p);
    GS_TRY(parse_model(&p, "the end", net));
    if (p.length == 0) return GS_OK;
    gs_layer_free(*net);
    *net = NULL;
    return wrong(&p, "expected ',' or the end%s", *p.at == ')' ? "; no '(' is open" : "");
}
