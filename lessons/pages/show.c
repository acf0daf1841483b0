#include "lessons/pages/slides.h"

#include <stdlib.h>
#include <string.h>

#include "lessons/pages/site.h"

void show_words(FILE *to, const char *words) {
    ast a;
    if (ast_parse(words, strlen(words), &a) != GS_OK) return;
    char *html = ast_html(&a, a.root);
    size_t begin = strncmp(html, "<p>", 3) == 0 ? 3 : 0, end = strlen(html);
    const char *close = strstr(html, "</p>");
    if (begin && close) end = (size_t)(close - html);
    fprintf(to, "%.*s", (int)(end - begin), html + begin);
    free(html);
    ast_free(&a);
}

/* Columns that a line takes: a character of UTF-8 takes one. */
static int columns(const char *line, size_t bytes) {
    int n = 0;
    for (size_t i = 0; i < bytes; i++) n += ((unsigned char)line[i] & 0xc0) != 0x80;
    return n;
}

enum { WIDEST = 240, GAP = 3 };

/* Columns that are blank in all lines are `GAP` at most, side by side: what is left may be shown larger. */
static void mark_gaps(const char *from, const char *end, bool gap[WIDEST]) {
    bool used[WIDEST] = {false};
    for (int column = 0; from < end; from++) {
        if (column < WIDEST && *from != ' ' && *from != '\n') used[column] = true;
        column = *from == '\n' ? 0 : column + 1;
    }
    for (int i = 0, blank = 0; i < WIDEST; i++) {
        blank = used[i] ? 0 : blank + 1;
        gap[i] = blank > GAP;
    }
}

static bool is_ascii(const char *from, const char *end) {
    for (; from < end; from++)
        if (*from & 0x80) return false;
    return true;
}

/* What stands between two pointers, without its gaps; *wide, *lines: its size. */
static char *closed_up(const char *from, const char *end, int *wide, int *lines) {
    bool gap[WIDEST] = {false}, ascii = is_ascii(from, end);
    char *text = malloc((size_t)(end - from) + 1), *to = text;
    if (ascii) mark_gaps(from, end, gap);
    *wide = *lines = 1;
    for (int column = 0, kept = 0; text && from < end; from++) {
        bool new_line = *from == '\n', shown = !(ascii && column < WIDEST && gap[column] && !new_line);
        if (shown) *to++ = *from;
        kept += shown && !new_line && ((unsigned char)*from & 0xc0) != 0x80;
        *wide = kept > *wide ? kept : *wide;
        *lines += new_line;
        column = new_line ? 0 : column + 1;
        if (new_line) kept = 0;
    }
    if (text) *to = '\0';
    return text;
}

void show_text(FILE *to, const char *text, int first, int last) {
    int wide, lines, line = 1;
    const char *from = NULL, *end = text;
    for (const char *at = text; *at && (last == 0 || line <= last); line++) {
        if (line == first) from = at;
        at += strcspn(at, "\n");
        at += *at == '\n';
        end = at;
    }
    while (from && end > from && end[-1] == '\n') end--;
    char *shown = from ? closed_up(from, end, &wide, &lines) : NULL;
    if (!shown) return;
    fprintf(to, "<div class=\"fit\" style=\"--columns:%d;--lines:%d\"><pre>", wide, lines);
    site_escape(to, shown, strlen(shown));
    fputs("</pre></div>\n", to);
    free(shown);
}

enum { COLUMNS = 12, LONGEST = 72 }; /* of a row on one line */

void show_table(FILE *to, const ast *a, cmark_node *table) {
    int wide[COLUMNS] = {0}, rows = 0, all = 0, count = 0;
    for (cmark_node *row = cmark_node_first_child(table); row; row = cmark_node_next(row), rows++) {
        int i = 0;
        for (cmark_node *cell = cmark_node_first_child(row); cell && i < COLUMNS;
             cell = cmark_node_next(cell), i++) {
            char *words = ast_words(cell);
            int n = words ? columns(words, strlen(words)) : 0;
            wide[i] = n > wide[i] ? n : wide[i];
            free(words);
        }
        count = i;
    }
    for (int i = 0; i < count; i++) all += wide[i];
    char *html = ast_html(a, table);
    fprintf(to, "<div class=\"fit\" style=\"--columns:%d;--cells:%d;--lines:%d\"><div%s>%s</div></div>\n",
            all, count, rows, all > LONGEST ? " class=\"wraps\"" : "", html);
    free(html);
}

void show_svg(FILE *to, const char *svg) {
    const char *begin = strstr(svg, "<svg");
    if (begin) fprintf(to, "<div class=\"figure\">%s</div>\n", begin);
}
