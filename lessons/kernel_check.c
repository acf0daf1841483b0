/* Checks for what a lab.cl may not contain: other files, assembly, and prints, which could be mistaken for Oclgrind's
 * counts. A C preprocessor sees a different text than OpenCL's does (__OPENCL_VERSION__), and must not fail on an
 * unfinished kernel. Therefore this check reads the unprocessed file, including comments. */
#include "source_check.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static char sentence[400];

/* Reads a text as if its line splices were removed: a backslash, possibly spaces, and the end of the line. */
typedef struct reader {
    const char *at;
    int line;
} reader;

static char next(reader *r) {
    while (*r->at == '\\') {
        const char *end = r->at + 1 + strspn(r->at + 1, " \t\v\f");
        if (*end != '\n' && *end != '\r') break;
        r->at = end + (end[0] == '\r' && end[1] == '\n' ? 2 : 1);
        r->line++;
    }
    char c = *r->at;
    if (c != '\0') r->at++;
    if (c == '\n') r->line++;
    return c;
}

static const char *refuse(int line, const char *what) {
    snprintf(sentence, sizeof sentence, "line %d: it uses %.60s, which no lab needs", line, what);
    return sentence;
}

static bool is_one_of(const char *word, const char *const *list) {
    for (; *list; list++)
        if (strcmp(word, *list) == 0) return true;
    return false;
}

static bool is_wrong(const char *word, bool directive) {
    static const char *const words[] = {"asm", "__asm", "__asm__", NULL};
    static const char *const directives[] = {"include", "include_next", "import", "embed", NULL};
    return strstr(word, "printf") || is_one_of(word, words) || (directive && is_one_of(word, directives));
}

const char *lab_check_kernels(const char *text) {
    reader r = {text, 1};
    char word[4096];
    bool directive = false; /* the last token was a #, possibly with spaces after it */
    for (char c = next(&r), before = '\0'; c != '\0';) {
        int line = r.line;
        if (isalpha((unsigned char)c) || c == '_') {
            size_t n = 0;
            for (; isalnum((unsigned char)c) || c == '_'; c = next(&r)) {
                if (n == sizeof word - 1) return refuse(line, "a word of more than 4000 letters");
                word[n++] = c;
            }
            word[n] = '\0';
            if (is_wrong(word, directive)) return refuse(line, word);
            directive = false;
            before = word[n - 1];
            continue;
        }
        if (c == '#' && before == '#') return refuse(line, "##");
        if (c == ':' && before == '%') return refuse(line, "%:");
        if (c == '?' && before == '?') return refuse(line, "??");
        if (c == '/' && directive) return refuse(line, "a comment behind #");
        directive = c == '#' || (directive && strchr(" \t\v\f", c));
        before = c;
        c = next(&r);
    }
    return NULL;
}
