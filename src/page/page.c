#include "page/page.h"

#include <stdlib.h>
#include <string.h>
#include "core/text.h"
#include "io/file.h"
#include "io/json.h"

/* gs_file_writer_commit checks for errors of `f`. */
static void put_text(FILE *f, const char *raw) {
    static const char special[] = "&<>\"'";
    static const char *const entities[] = {"&amp;", "&lt;", "&gt;", "&quot;", "&#39;"};
    char shown[2000]; /* a folder's name may contain any bytes */
    for (const char *text = gs_printable_into(shown, sizeof shown, raw, "\n\t"); *text; text++) {
        const char *found = strchr(special, *text);
        found ? fputs(entities[found - special], f) : fputc(*text, f);
    }
}

/* Inside a script element, a browser searches only for "</script" and "<!--". In JSON, "<" occurs only inside strings,
 * where it may be escaped. */
static gs_status put_json(FILE *f, const cJSON *json) {
    char *text = gs_json_to_text(json, false);
    if (!text) return gs_fail(GS_E_MEMORY, "no memory for the data of a page");
    for (const char *c = text; *c; c++)
        if (*c == '<')
            fputs("\\u003c", f);
        else
            fputc(*c, f);
    cJSON_free(text);
    return GS_OK;
}

static void put_source(FILE *f, const char *text, const char *end) {
    if (strcasestr(text, end) || strstr(text, "<!--"))
        gs_bug("a style or script of a page has '%s' or a comment of HTML in it", end);
    fputs(text, f);
}

static bool is_mark(const char *mark, const char *name) {
    return strncmp(mark, name, strlen(name)) == 0;
}

static gs_status put(FILE *f, const char *mark, const gs_page *page, const cJSON *data) {
    if (is_mark(mark, "{{title}}")) {
        put_text(f, page->title);
    } else if (is_mark(mark, "{{style}}")) {
        put_source(f, gs_page_base_css, "</style");
        for (const char *const *style = page->style; *style; style++) put_source(f, *style, "</style");
    } else if (is_mark(mark, "{{body}}")) {
        fputs(page->body, f);
    } else if (is_mark(mark, "{{data}}")) {
        return put_json(f, data);
    } else if (is_mark(mark, "{{chart}}")) {
        if (page->has_charts) put_source(f, gs_page_chart_js, "</script");
    } else if (is_mark(mark, "{{script}}")) {
        put_source(f, gs_page_base_js, "</script");
        for (const char *const *script = page->script; *script; script++) put_source(f, *script, "</script");
    } else {
        gs_bug("base.html has an unknown mark: %.12s", mark);
    }
    return GS_OK;
}

static gs_status compose(FILE *f, const gs_page *page, const cJSON *data) {
    const char *at = gs_page_base_html, *mark, *end;
    for (; (mark = strstr(at, "{{")) && (end = strstr(mark, "}}")); at = end + 2) {
        fwrite(at, 1, (size_t)(mark - at), f);
        GS_TRY(put(f, mark, page, data));
    }
    fputs(at, f);
    return GS_OK;
}

gs_status gs_page_write(const char *path, const gs_page *page, const cJSON *data) {
    gs_file_writer w;
    GS_TRY(gs_file_writer_open(path, &w));
    const gs_status status = compose(w.file, page, data);
    if (status == GS_OK) return gs_file_writer_commit(&w);
    gs_file_writer_discard(&w);
    return status;
}
