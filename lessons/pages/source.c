/* A source file as a page: numbered lines, comments in another colour. */
#include "lessons/pages/site.h"

#include <stdlib.h>
#include <string.h>

typedef enum place { CODE, LINE_COMMENT, COMMENT, TEXT, CHARACTER } place;

/* C and OpenCL C have comments in these forms; other files are shown without colours. */
static bool is_c(const char *source) {
    const char *dot = strrchr(source, '.');
    const char *const endings[] = {".c", ".h", ".cc", ".cl", ".clh"};
    for (size_t i = 0; dot && i < sizeof endings / sizeof *endings; i++)
        if (strcmp(dot, endings[i]) == 0) return true;
    return false;
}

/* Where the text goes on after the byte at `at`; *length: the bytes that this took. */
static place after(place in, const char *at, size_t *length) {
    *length = 1;
    switch (in) {
    case CODE:
        *length = at[0] == '/' && (at[1] == '*' || at[1] == '/') ? 2 : 1;
        if (*length == 2) return at[1] == '*' ? COMMENT : LINE_COMMENT;
        return *at == '"' ? TEXT : *at == '\'' ? CHARACTER : CODE;
    case COMMENT:
        if (at[0] != '*' || at[1] != '/') return COMMENT;
        *length = 2;
        return CODE;
    case LINE_COMMENT:
        return *at == '\n' ? CODE : LINE_COMMENT;
    default:
        if (*at == '\\' && at[1] && at[1] != '\n') *length = 2;
        return *at == (in == TEXT ? '"' : '\'') || *at == '\n' ? CODE : in;
    }
}

static bool comment(place p) {
    return p == COMMENT || p == LINE_COMMENT;
}

static void write_lines(FILE *to, const char *text, bool c) {
    place in = CODE;
    int line = 1;
    fprintf(to, "<span id=\"L%d\">", line);
    for (size_t length; *text; text += length) {
        place next = CODE;
        length = 1;
        if (c) next = after(in, text, &length);
        if (!comment(in) && comment(next)) fputs("<i>", to);
        bool ends = *text == '\n';
        if (!ends) site_escape(to, text, length);
        if (comment(in) && (!comment(next) || ends)) fputs("</i>", to);
        if (ends && text[1]) fprintf(to, "</span>\n<span id=\"L%d\">%s", ++line, comment(next) ? "<i>" : "");
        in = next;
    }
    fputs("</span>\n", to);
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
    write_lines(to, text, is_c(p->source));
    fputs("</pre>\n", to);
    site_end(s, to, p);
    fclose(to);
    free(text);
    gs_status status = site_put(s, p->name, html, size);
    free(html);
    return status;
}
