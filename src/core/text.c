#include "core/text.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

void gs_append(char *text, size_t size, const char *format, ...) {
    const size_t used = strlen(text);
    va_list rest;
    va_start(rest, format);
    vsnprintf(text + used, size - used, format, rest);
    va_end(rest);
}

/* The character of UTF-8 (RFC 3629) at `at`, and its bytes; 0: there is none. */
static int character(const unsigned char *at, uint32_t *code) {
    int length = *at < 0x80             ? 1
                 : (*at & 0xe0) == 0xc0 ? 2
                 : (*at & 0xf0) == 0xe0 ? 3
                 : (*at & 0xf8) == 0xf0 ? 4
                                        : 0;
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000}; /* smaller ones have a shorter form */
    *code = length == 1 ? *at : *at & (0x7fu >> length);
    for (int i = 1; i < length; i++) {
        if ((at[i] & 0xc0) != 0x80) return 0; /* also at the final 0 */
        *code = *code << 6 | (at[i] & 0x3f);
    }
    bool wrong = *code < least[length] || *code > 0x10ffff || (*code >= 0xd800 && *code <= 0xdfff);
    return wrong ? 0 : length;
}

/* C0, DEL and C1; and the marks and overrides of direction, which can make a name look like another one. */
static bool is_control(uint32_t c) {
    return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x061c || c == 0x200e || c == 0x200f ||
           (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069);
}

char *gs_printable_into(char *to, size_t size, const char *from, const char *keep) {
    size_t used = 0;
    for (const unsigned char *at = (const unsigned char *)from; *at;) {
        char text[4 * 4 + 1];
        uint32_t code;
        int length = character(at, &code), bytes = length ? length : 1;
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
