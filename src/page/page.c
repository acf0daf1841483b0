#include "page/page.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "core/text.h"
#include "io/file.h"
#include "io/json.h"

/* ---- parts; `f` is memory, and whether there was enough is asked once, in gs_page_write ---- */

static void put_text(FILE *f, const char *raw) {
    static const char special[] = "&<>\"'";
    static const char *const entities[] = {"&amp;", "&lt;", "&gt;", "&quot;", "&#39;"};
    char shown[2000]; /* a folder may have any bytes in its name */
    for (const char *text = gs_printable_into(shown, sizeof shown, raw, "\n\t"); *text; text++) {
        const char *found = strchr(special, *text);
        found ? fputs(entities[found - special], f) : fputc(*text, f);
    }
}

/* Within a script element a browser looks for nothing but "</script" and "<!--". In JSON "<" stands in strings
 * only, where it may be written as an escape. */
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

static void put_source(FILE *f, const gs_page_part *part, const char *end) {
    if (strcasestr(part->text, end) || strstr(part->text, "<!--"))
        gs_bug("the part %s of a page has '%s' or a comment of HTML in it", part->mark, end);
    fputs(part->text, f);
}

static gs_status put(FILE *f, const gs_page_part *part) {
    switch (part->kind) {
    case GS_PAGE_TEXT:
        put_text(f, part->text);
        break;
    case GS_PAGE_HTML:
        fputs(part->text, f);
        break;
    case GS_PAGE_STYLE:
        put_source(f, part, "</style");
        break;
    case GS_PAGE_SCRIPT:
        put_source(f, part, "</script");
        break;
    case GS_PAGE_JSON:
        return put_json(f, part->json);
    }
    return GS_OK;
}

/* ---- the page ---- */

/* The parts of this mark. */
static gs_status put_all(FILE *f, const gs_page_part *parts, const char *mark, size_t length) {
    bool found = false;
    for (; parts->mark; parts++) {
        if (strlen(parts->mark) != length || memcmp(parts->mark, mark, length) != 0) continue;
        GS_TRY(put(f, parts));
        found = true;
    }
    if (!found) gs_bug("a page has no part '%.*s'", (int)length, mark);
    return GS_OK;
}

static gs_status compose(FILE *f, const char *page, const gs_page_part *parts) {
    const char *mark, *end;
    while ((mark = strstr(page, "{{")) && (end = strstr(mark, "}}"))) {
        fwrite(page, 1, (size_t)(mark - page), f);
        GS_TRY(put_all(f, parts, mark + 2, (size_t)(end - mark - 2)));
        page = end + 2;
    }
    fputs(page, f);
    return GS_OK;
}

static gs_status write_file(const char *path, const char *text, size_t length) {
    gs_file_writer w;
    GS_TRY(gs_file_writer_open(path, &w));
    setvbuf(w.file, NULL, _IONBF, 0); /* one write, whose errno says what went wrong: a full disk, say */
    if (fwrite(text, 1, length, w.file) == length) return gs_file_writer_commit(&w);
    gs_status status = gs_fail(GS_E_FILE, "cannot write %s: %s", path, strerror(errno));
    gs_file_writer_discard(&w);
    return status;
}

gs_status gs_page_write(const char *path, const char *page, const gs_page_part *parts) {
    char *text = NULL;
    size_t length;
    FILE *memory = open_memstream(&text, &length);
    gs_status status = memory ? compose(memory, page, parts) : GS_OK;
    bool whole = memory && !ferror(memory);
    if (memory && fclose(memory) != 0) whole = false;
    if (status == GS_OK && !whole) status = gs_fail(GS_E_MEMORY, "no memory to put %s together", path);
    if (status == GS_OK) status = write_file(path, text, length);
    free(text);
    return status;
}
