#include "model/words.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/nearest.h"

/* ---- reading ---- */

static bool is_sign(char c) {
    return c != '\0' && strchr(",()|;=", c) != NULL;
}

static bool is_space(char c) {
    return c != '\0' && strchr(" \t\r\n", c) != NULL;
}

/* The word or sign that begins after spaces at `from`. */
static gs_word word_at(const char *from) {
    while (is_space(*from)) from++;
    const char *end = from;
    if (is_sign(*end)) return (gs_word){from, 1};
    while (*end && !is_sign(*end) && !is_space(*end)) end++;
    return (gs_word){from, (size_t)(end - from)};
}

void gs_words_advance(gs_words *w) {
    w->here = word_at(w->next);
    w->next = w->here.at + w->here.length;
    for (int i = 0; w->block && i < w->block->params; i++)
        if (gs_word_same(w->here, w->block->param[i])) {
            w->here = w->value[i];
            return;
        }
}

void gs_words_begin(gs_words *w, const char *from) {
    w->next = from;
    gs_words_advance(w);
}

bool gs_word_is(gs_word word, const char *text) {
    return word.length == strlen(text) && memcmp(word.at, text, word.length) == 0;
}

bool gs_word_same(gs_word a, gs_word b) {
    return a.length == b.length && memcmp(a.at, b.at, a.length) == 0;
}

bool gs_word_is_sign(gs_word word) {
    return word.length > 0 && is_sign(*word.at);
}

bool gs_words_accept(gs_words *w, const char *word) {
    bool found = gs_word_is(w->here, word);
    if (found) gs_words_advance(w);
    return found;
}

/* ---- saying what is wrong ---- */

/* The lookahead for people: cut when it is long, and with \x.. for what is not a printable character. */
static void quote(gs_word word, char *out, size_t size) {
    size_t used = 0;
    out[0] = '\0';
    for (size_t i = 0; i < word.length; i++) {
        if (used + 9 > size) {
            snprintf(out + used, size - used, "...");
            return;
        }
        unsigned char c = (unsigned char)word.at[i];
        used += (size_t)snprintf(out + used, size - used, c > ' ' && c < 0x7f ? "%c" : "\\x%02x", c);
    }
}

/* How many words, signs not counted, begin up to this place. */
static int number_of(const char *text, const char *place) {
    int words = 0;
    for (gs_word w = word_at(text); w.length > 0 && w.at <= place; w = word_at(w.at + w.length))
        words += !is_sign(*w.at);
    return words;
}

gs_status gs_words_wrong(const gs_words *w, const char *format, ...) {
    char problem[600], word[48], place[128];
    va_list args;
    va_start(args, format);
    vsnprintf(problem, sizeof problem, format, args);
    va_end(args);
    quote(w->here, word, sizeof word);
    int column = (int)(w->here.at - w->text) + 1, number = number_of(w->text, w->here.at);
    if (w->here.length == 0)
        snprintf(place, sizeof place, "the end (column %d)", column);
    else if (is_sign(*w->here.at))
        snprintf(place, sizeof place, "'%s' after word %d (column %d)", word, number, column);
    else
        snprintf(place, sizeof place, "word %d ('%s', column %d)", number, word, column);
    return gs_fail(GS_E_MODEL, "model text: %s: %s", place, problem);
}

void gs_words_suggest(const gs_words *w, const char *const *words, char *out, size_t size) {
    const char *nearest = gs_nearest(w->here.at, w->here.length, words);
    out[0] = '\0';
    if (nearest) snprintf(out, size, "did you mean %s? ", nearest);
}

/* ---- numbers ---- */

/* Digits alone, as a number up to GS_WORDS_NUMBER; -1 for anything else. */
static int whole_number(const char *digits, size_t length) {
    int number = 0;
    if (length == 0) return -1;
    for (size_t i = 0; i < length; i++) {
        if (digits[i] < '0' || digits[i] > '9') return -1;
        number = number * 10 + (digits[i] - '0');
        if (number > GS_WORDS_NUMBER) return -1;
    }
    return number;
}

bool gs_words_at_count(const gs_words *w, int *out) {
    *out = whole_number(w->here.at, w->here.length);
    return *out >= 1;
}

gs_status gs_words_count(gs_words *w, const char *what, int *out) {
    if (!gs_words_at_count(w, out))
        return gs_words_wrong(w, "expected %s, a whole number from 1 to %d", what, GS_WORDS_NUMBER);
    gs_words_advance(w);
    return GS_OK;
}

gs_status gs_words_size(gs_words *w, const char *what, int least, gs_size2d *out) {
    const char *at = w->here.at, *x = w->here.length ? memchr(at, 'x', w->here.length) : NULL;
    size_t first = x ? (size_t)(x - at) : w->here.length;
    out->h = whole_number(at, first);
    out->w = x ? whole_number(x + 1, w->here.length - first - 1) : out->h;
    if (out->h < least || out->w < least)
        return gs_words_wrong(w, "expected %s, K or HxW with whole numbers from %d to %d", what, least,
                              GS_WORDS_NUMBER);
    gs_words_advance(w);
    return GS_OK;
}

static size_t digits_at(const char *text, size_t length) {
    size_t digits = 0;
    while (digits < length && text[digits] >= '0' && text[digits] <= '9') digits++;
    return digits;
}

/* By hand, since strtod depends on the user's language. */
static bool decimal(gs_word word, size_t most, float *out) {
    size_t used = digits_at(word.at, word.length), digits = used;
    double value = 0, unit = 1;
    for (size_t i = 0; i < digits; i++) value = 10 * value + (word.at[i] - '0');
    if (used < word.length && word.at[used] == '.') {
        size_t fraction = digits_at(word.at + used + 1, word.length - used - 1);
        for (size_t i = 1; i <= fraction; i++, unit *= 10) value = 10 * value + (word.at[used + i] - '0');
        used += 1 + fraction;
        digits += fraction;
    }
    *out = (float)(value / unit);
    return used == word.length && digits >= 1 && digits <= most;
}

gs_status gs_words_chance(gs_words *w, const char *what, float *out) {
    if (!decimal(w->here, 9, out) || !(*out < 1))
        return gs_words_wrong(w, "expected %s: a decimal from 0 to below 1, such as 0.5", what);
    gs_words_advance(w);
    return GS_OK;
}

gs_status gs_words_deviation(gs_words *w, const char *what, float *out) {
    if (!decimal(w->here, 15, out) || !(*out >= 1e-4f && *out <= 100))
        return gs_words_wrong(w, "expected %s: a decimal from 0.0001 to 100, such as 0.02", what);
    gs_words_advance(w);
    return GS_OK;
}
