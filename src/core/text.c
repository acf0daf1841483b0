#include "core/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "core/shard.h"

void gs_append(char *text, size_t size, const char *format, ...) {
    const size_t used = strlen(text);
    va_list rest;
    va_start(rest, format);
    vsnprintf(text + used, size - used, format, rest);
    va_end(rest);
}

bool gs_ends_with(const char *text, size_t length, const char *end) {
    const size_t most = strlen(end);
    return length >= most && memcmp(text + length - most, end, most) == 0;
}

int gs_utf8_read_part(const char *text, size_t bytes, uint32_t *code) {
    const unsigned char *at = (const unsigned char *)text;
    if (bytes == 0) return -1;
    const int length = *at < 0x80 ? 1 : *at < 0xc2 ? 0 : *at < 0xe0 ? 2 : *at < 0xf0 ? 3 : *at < 0xf5 ? 4 : 0;
    *code = length == 1 ? *at : *at & (0x7fu >> length);
    for (int i = 1; i < length; i++) {
        if ((size_t)i == bytes) return -1;
        /* The range of the second byte rules out overlong forms, surrogates and characters above U+10FFFF. */
        const unsigned least = i > 1 ? 0x80 : *at == 0xe0 ? 0xa0 : *at == 0xf0 ? 0x90 : 0x80;
        const unsigned most = i > 1 ? 0xbf : *at == 0xed ? 0x9f : *at == 0xf4 ? 0x8f : 0xbf;
        if (at[i] < least || at[i] > most) return 0; /* also fails at the text's final 0 */
        *code = *code << 6 | (at[i] & 0x3fu);
    }
    return length;
}

int gs_utf8_read(const char *text, uint32_t *code) {
    enum { LONGEST = 4 };
    return gs_utf8_read_part(text, LONGEST, code);
}

int gs_utf8_write(uint32_t code, char to[5]) {
    const int length = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    static const unsigned char first[] = {0, 0, 0xc0, 0xe0, 0xf0};
    to[length] = '\0';
    for (int i = length - 1; i > 0; i--, code >>= 6) to[i] = (char)(0x80 | (code & 0x3f));
    to[0] = (char)(first[length] | code);
    return length;
}

/* C0, DEL and C1, and the direction marks and overrides, which can make one name look like another. */
static bool is_control(uint32_t c) {
    return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x061c || c == 0x200e || c == 0x200f ||
           (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069);
}

char *gs_printable_into(char *to, size_t size, const char *from, const char *keep) {
    size_t used = 0;
    for (const unsigned char *at = (const unsigned char *)from; *at;) {
        char text[4 * 4 + 1];
        uint32_t code;
        int length = gs_utf8_read((const char *)at, &code), bytes = length ? length : 1;
        bool plain = length > 0 && (!is_control(code) || (code < 0x80 && strchr(keep, (int)code)));
        if (plain)
            snprintf(text, sizeof text, "%.*s", length, (const char *)at);
        else if (*at == '\n' || *at == '\t')
            strcpy(text, *at == '\n' ? "\\n" : "\\t");
        else
            for (int i = 0; i < bytes; i++) snprintf(text + 4 * i, 5, "\\x%02x", at[i]);
        size_t more = strlen(text);
        if (used + more >= size) break;
        memcpy(to + used, text, more);
        used += more;
        at += bytes;
    }
    if (size > 0) to[used] = '\0';
    return to;
}

const char *gs_printable(const char *text) {
    enum { MOST = 80 };
    static _Thread_local char buffer[4][MOST + 8];
    static _Thread_local unsigned turn;
    char *to = buffer[turn++ % 4];
    gs_printable_into(to, MOST + 8, text, "");
    if (strlen(to) <= MOST) return to;
    gs_printable_into(to, MOST, text, "");
    return strcat(to, "...");
}

/* ---- "did you mean ...?" ---- */

static char lower(char c) {
    return c >= 'A' && c <= 'Z' ? (char)(c + ('a' - 'A')) : c;
}

/* The number of characters to change, add, drop or swap with the next one to turn `a` into `b`; SIZE_MAX for long
 * words. Source: Damerau 1964, with the table of Wagner and Fischer 1974: d[i][j] is the distance between the first i
 * and the first j characters. */
static size_t distance(const char *a, size_t na, const char *b) {
    enum { LONGEST = 40 };
    size_t d[LONGEST + 1][LONGEST + 1], nb = strlen(b);
    if (na > LONGEST || nb > LONGEST) return SIZE_MAX;
    for (size_t i = 0; i <= na; i++) d[i][0] = i;
    for (size_t j = 0; j <= nb; j++) d[0][j] = j;
    for (size_t i = 1; i <= na; i++)
        for (size_t j = 1; j <= nb; j++) {
            size_t change = d[i - 1][j - 1] + (lower(a[i - 1]) != b[j - 1]);
            d[i][j] = gs_smaller(change, gs_smaller(d[i - 1][j], d[i][j - 1]) + 1);
            bool swapped = i > 1 && j > 1 && lower(a[i - 1]) == b[j - 2] && lower(a[i - 2]) == b[j - 1];
            if (swapped) d[i][j] = gs_smaller(d[i][j], d[i - 2][j - 2] + 1);
        }
    return d[na][nb];
}

const char *gs_nearest(const char *word, size_t length, const char *const *names) {
    const char *nearest = NULL;
    size_t most = length == 2 ? 1 : length / 3, best = most + 1;
    for (; *names; names++) {
        bool same = strlen(*names) == length && memcmp(*names, word, length) == 0;
        size_t d = distance(word, length, *names);
        if (d >= best || same) continue;
        best = d;
        nearest = *names;
    }
    return nearest;
}

const char *gs_did_you_mean(const char *word, const char *const *names) {
    static _Thread_local char text[96];
    const char *nearest = gs_nearest(word, strlen(word), names);
    if (!nearest) return "";
    snprintf(text, sizeof text, "; did you mean %s?", nearest);
    return text;
}

gs_status gs_no_such(const char *what, const char *word, const char *const *names) {
    char list[400] = "";
    for (size_t i = 0; names[i]; i++) gs_append(list, sizeof list, "%s%s", i ? ", " : "", names[i]);
    return gs_fail(GS_E_USAGE, "unknown %s '%s'; choose one of: %s%s", what, word, list,
                   gs_did_you_mean(word, names));
}
