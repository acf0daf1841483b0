/* A text in colours, and a source file as a page with numbered lines. */
#include "lessons/pages/site.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static site_language language_of(const char *source) {
    const char *dot = strrchr(source, '.'), *const endings[] = {".sh", ".mk", ".c",  ".h",
                                                                ".cc", ".cl", ".clh"};
    for (size_t i = 0; dot && i < sizeof endings / sizeof *endings; i++)
        if (strcmp(dot, endings[i]) == 0) return i < 2 ? SITE_SHELL : SITE_C;
    return SITE_PLAIN;
}

static bool is_keyword(const char *at, size_t n, site_language l) {
    const char *words = l == SITE_C
                            ? " #include #define #undef #if #ifdef #ifndef #else #elif #endif #pragma return "
                              "if else for while do switch case default break continue goto sizeof typedef "
                              "struct enum union static const inline extern void bool char short int long "
                              "float double unsigned signed size_t uint ulong kernel global local __kernel "
                              "__global __local __constant restrict float4 float8 float16 "
                            : " if then else elif fi for in while until do done case esac return exit ";
    for (const char *w = words; *w && l != SITE_PLAIN; w += 1 + strcspn(w + 1, " "))
        if (strncmp(w + 1, at, n) == 0 && w[1 + n] == ' ') return true;
    return false;
}

static size_t name_length(const char *at) {
    size_t n = *at == '#';
    while (isalnum((unsigned char)at[n]) || at[n] == '_') n++;
    return n;
}

static size_t string_length(const char *at, bool c) {
    size_t n = 1;
    while (at[n] && at[n] != *at && !(c && at[n] == '\n'))
        n += at[n] == '\\' && (c || *at == '"') && at[n + 1] ? 2 : 1;
    return n + (at[n] == *at);
}

bool site_is_command(const char *line) {
    const char *const begins[] = {"$ ", "build/", "make ", "sh ", "mpirun "};
    for (size_t i = 0; i < sizeof begins / sizeof *begins; i++)
        if (strncmp(line, begins[i], strlen(begins[i])) == 0) return true;
    return false;
}

/* A command's lines, up to a comment or to three blanks, behind which its output or a remark stands. */
static size_t command_length(const char *at) {
    size_t n = 0;
    while (at[n] && strncmp(at + n, "   ", 3) != 0 && strncmp(at + n, " # ", 3) != 0 && at[n] != '\n')
        n += at[n] == '\\' && at[n + 1] == '\n' ? 2 + strspn(at + n + 2, " ") : 1;
    return n;
}

/* The element of what begins at `at`, NULL: none; *n: its bytes. */
static const char *token(const char *at, char before, site_language l, size_t *n) {
    bool begins_line = before == '\n';
    *n = strcspn(at, "\n");
    if (l == SITE_COMMANDS && begins_line && site_is_command(at)) return *n = command_length(at), "b";
    if (l >= SITE_SHELL && *at == '#' && (begins_line || before == ' ')) return "i";
    if (l == SITE_C && strncmp(at, "//", 2) == 0) return "i";
    if (l == SITE_C && strncmp(at, "/*", 2) == 0) {
        const char *end = strstr(at + 2, "*/");
        *n = end ? (size_t)(end + 2 - at) : strlen(at);
        return "i";
    }
    *n = 1;
    if ((l == SITE_C || l == SITE_SHELL) && (*at == '"' || *at == '\''))
        return *n = string_length(at, l == SITE_C), "q";
    size_t name = name_length(at);
    if (name > 0) *n = name;
    return l != SITE_COMMANDS && is_keyword(at, *n, l) ? "b" : NULL;
}

void site_code(FILE *to, const char *text, site_language l, bool numbered) {
    int line = 1;
    char before = '\n';
    if (numbered) fprintf(to, "<span id=\"L%d\">", line);
    for (size_t n; *text; text += n) {
        const char *tag = token(text, before, l, &n);
        if (tag) fprintf(to, "<%s>", tag);
        for (size_t i = 0; i < n; i++) {
            if (text[i] != '\n' || !numbered) {
                site_escape(to, text + i, 1);
                continue;
            }
            if (tag) fprintf(to, "</%s>", tag);
            if (text[i + 1]) fprintf(to, "</span>\n<span id=\"L%d\">", ++line);
            if (tag) fprintf(to, "<%s>", tag);
        }
        if (tag) fprintf(to, "</%s>", tag);
        before = text[n - 1];
    }
    if (numbered) fputs("</span>\n", to);
}

gs_status site_source(site *s, size_t page) {
    char *text, *html = NULL;
    size_t bytes, size = 0;
    site_page *p = &s->pages[page];
    GS_TRY(site_read(s, p->source, &text, &bytes));
    FILE *to = open_memstream(&html, &size);
    if (!to) {
        free(text);
        return gs_fail(GS_E_MEMORY, "no memory for the page of %s", p->source);
    }
    site_begin(s, to, p, p->source);
    fprintf(to, "<h1 class=\"path\">%s</h1>\n<pre class=\"lines\">", p->source);
    site_code(to, text, language_of(p->source), true);
    fputs("</pre>\n", to);
    site_end(s, to, p);
    fclose(to);
    free(text);
    gs_status status = site_put(s, p->name, html, size);
    free(html);
    return status;
}
