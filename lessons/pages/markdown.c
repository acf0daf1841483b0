/* A README as a page: its links lead to pages, the paths that it names too, and the figures that it names are shown. */
#include "lessons/pages/site.h"
#include "lessons/pages/ast.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "io/json.h"

typedef struct page {
    site *s;
    size_t index;
    ast a;
    const char *text; /* of the README */
    gs_status status; /* of its pictures' commands */
} page;

static const char *source_of(const page *p) {
    return p->s->pages[p->index].source;
}

/* What leads from this page to that of `source`, in `href`. false: there is none. */
static bool href_to(page *p, const char *source, const char *anchor, char *href, size_t size) {
    char up[PATH_MAX];
    const char *name = site_want(p->s, source);
    if (!name) return false;
    site_up(p->s->pages[p->index].name, up, sizeof up);
    snprintf(href, size, "%s%s%s", up, name, anchor);
    return true;
}

static cmark_node *top_block(const page *p, cmark_node *node) {
    while (cmark_node_parent(node) && cmark_node_parent(node) != p->a.root) node = cmark_node_parent(node);
    return node;
}

/* ---- links and pictures ---- */

static bool is_elsewhere(const char *url) {
    return strstr(url, "://") || strncmp(url, "mailto:", 7) == 0;
}

/* A link to another file. The words of one that leads to no page stay, without the link. */
static void turn_link(page *p, cmark_node *link) {
    char path[PATH_MAX], found[PATH_MAX], href[2 * PATH_MAX];
    const char *url = cmark_node_get_url(link);
    size_t length = strcspn(url, "#");
    if (is_elsewhere(url) || length == 0) return;
    snprintf(path, sizeof path, "%.*s", (int)length, url);
    if (site_find(p->s, source_of(p), path, found, sizeof found) &&
        href_to(p, found, url + length, href, sizeof href)) {
        cmark_node_set_url(link, href);
        return;
    }
    for (cmark_node *child; (child = cmark_node_first_child(link));) cmark_node_insert_before(link, child);
    cmark_node_free(link);
}

/* The page that a picture's command makes, below the picture. */
static void show_moving(page *p, cmark_node *image, const char *command, const char *source) {
    const char *name = site_want(p->s, source);
    char up[PATH_MAX], path[PATH_MAX], line[4 * PATH_MAX], *html = NULL, *words = ast_words(image);
    size_t size = 0;
    FILE *to = name ? open_memstream(&html, &size) : NULL;
    if (to) {
        site_up(p->s->pages[p->index].name, up, sizeof up);
        snprintf(path, sizeof path, "%.*shtml", (int)(strlen(name) - 3), name);
        fprintf(to, "<figure class=\"moving\"><iframe src=\"%s%s\" loading=\"lazy\" title=\"", up, path);
        site_escape(to, words, strlen(words));
        fputs("\"></iframe>\n<figcaption><code>", to);
        site_escape(to, command, strlen(command));
        fprintf(to, "</code> <a href=\"%s%s\">open alone</a></figcaption></figure>\n", up, path);
        fclose(to);
        cmark_node_insert_after(top_block(p, image), ast_raw(true, html));
        snprintf(line, sizeof line, "mkdir -p '%s/%.*s' && '%s' %s -o '%s/%s' >/dev/null", p->s->folder,
                 (int)(strrchr(path, '/') - path), path, p->s->gradsum, command + strlen("gradsum "),
                 p->s->folder, path);
        if (p->status == GS_OK && system(line) != 0)
            p->status = gs_fail(GS_E_FILE, "%s: this picture's command fails: %s", source_of(p), command);
    }
    free(html);
    free(words);
}

static void turn_image(page *p, cmark_node *image) {
    char found[PATH_MAX], *title = strdup(cmark_node_get_title(image));
    cmark_node_set_title(image, "");
    for (char *c = title; c && *c; c++)
        if (*c == '\n') *c = ' ';
    if (title && strncmp(title, "gradsum ", 8) == 0 &&
        site_find(p->s, source_of(p), cmark_node_get_url(image), found, sizeof found))
        show_moving(p, image, title, found);
    free(title);
    turn_link(p, image);
}

static void turn_all(page *p, const char *type, void (*turn)(page *, cmark_node *)) {
    size_t count;
    cmark_node **all = ast_all(p->a.root, type, &count);
    for (size_t i = 0; i < count; i++) turn(p, all[i]);
    free(all);
}

/* ---- files named in the text ---- */

/* Does the README quote most lines of a figure's text? Then it need not be shown once more. */
static bool is_quoted(const page *p, const char *figure) {
    int lines = 0, quoted = 0;
    char line[400];
    for (const char *at = figure; *at;) {
        size_t n = strcspn(at, "\n");
        size_t skip = strspn(at, " #");
        if (skip < n && n - skip < sizeof line) {
            snprintf(line, sizeof line, "%.*s", (int)(n - skip), at + skip);
            lines++;
            quoted += strstr(p->text, line) != NULL;
        }
        at += n + (at[n] == '\n');
    }
    return 3 * quoted >= 2 * lines;
}

/* Below the block that names a figure: all of it, folded together where it is long. */
static void show_figure(page *p, cmark_node *code, const char *source) {
    char *text, *html = NULL;
    size_t bytes, size = 0;
    if (site_read(p->s, source, &text, &bytes) != GS_OK) return;
    FILE *to = is_quoted(p, text) ? NULL : open_memstream(&html, &size);
    if (to) {
        const char *name = strrchr(source, '/') + 1;
        fprintf(to, "<details class=\"figure\"><summary>%s</summary><pre>", name);
        site_escape(to, text, bytes);
        fputs("</pre></details>\n", to);
        fclose(to);
        cmark_node_insert_after(top_block(p, code), ast_raw(true, html));
        free(html);
    }
    free(text);
}

/* `src/train/step.c` leads to its page. */
static void turn_code(page *p, cmark_node *code) {
    char found[PATH_MAX], href[2 * PATH_MAX];
    const char *path = cmark_node_get_literal(code);
    cmark_node *parent = cmark_node_parent(code);
    if (ast_is(parent, "link") || ast_is(parent, "heading") || !strchr(path, '.') || strpbrk(path, " *"))
        return;
    if (!site_find(p->s, source_of(p), path, found, sizeof found) ||
        !href_to(p, found, "", href, sizeof href))
        return;
    cmark_node *link = cmark_node_new(CMARK_NODE_LINK);
    cmark_node_set_url(link, href);
    cmark_node_insert_before(code, link);
    cmark_node_append_child(link, code);
    const char *base = strrchr(found, '/');
    if (base && strncmp(base, "/figure-", 8) == 0) show_figure(p, link, found);
}

/* ---- shape ---- */

static void turn_heading(page *p, cmark_node *heading) {
    char html[400], *slug = ast_slug(heading);
    (void)p;
    snprintf(html, sizeof html, "<a id=\"%s\"></a>", slug ? slug : "");
    cmark_node_prepend_child(heading, ast_raw(false, html));
    free(slug);
}

static void turn_table(page *p, cmark_node *table) {
    (void)p;
    cmark_node_insert_before(table, ast_raw(true, "<div class=\"table\">"));
    cmark_node_insert_after(table, ast_raw(true, "</div>"));
}

static void turn_quote(page *p, cmark_node *quote) {
    char id[32], html[200];
    (void)p;
    if (!ast_is_box(quote, id, sizeof id)) return;
    cmark_node *box = cmark_node_new(CMARK_NODE_CUSTOM_BLOCK);
    snprintf(html, sizeof html, "<aside class=\"predict\" id=\"predict-%s\">\n", id);
    cmark_node_set_on_enter(box, html);
    cmark_node_set_on_exit(box, "</aside>\n");
    cmark_node_insert_before(quote, box);
    for (cmark_node *child; (child = cmark_node_first_child(quote));) cmark_node_append_child(box, child);
    cmark_node_free(quote);
}

/* A block without a language: C if lines end as those of C do, commands if one begins as they do. */
static site_language language_of(const char *text) {
    size_t ends = 0, lines = 0;
    for (const char *at = text, *end; *at; at = *end ? end + 1 : end, lines++) {
        end = at + strcspn(at, "\n");
        ends += end > at && strchr(";{}", end[-1]);
        if (site_is_command(at)) return SITE_COMMANDS;
    }
    return 2 * ends > lines ? SITE_C : SITE_PLAIN;
}

static void turn_code_block(page *p, cmark_node *block) {
    const char *text = cmark_node_get_literal(block);
    char *html = NULL;
    size_t size = 0;
    FILE *to = open_memstream(&html, &size);
    (void)p;
    if (!to) return;
    fputs("<pre><code>", to);
    site_code(to, text, language_of(text), false);
    fputs("</code></pre>", to);
    fclose(to);
    cmark_node_insert_before(block, ast_raw(true, html));
    cmark_node_free(block);
    free(html);
}

/* For the search: the words of each section. */
static void keep_texts(page *p, const char *title) {
    cJSON *section = NULL;
    for (cmark_node *n = cmark_node_first_child(p->a.root); n; n = cmark_node_next(n)) {
        char *text = ast_words(n), *slug = ast_is(n, "heading") ? ast_slug(n) : NULL, address[PATH_MAX];
        if (slug) {
            snprintf(address, sizeof address, "%s#%s", p->s->pages[p->index].name, slug);
            section = GS_JSON_ARRAY(GS_JSON(&address[0]), GS_JSON(title));
            cJSON_AddItemToArray(p->s->texts, section);
        }
        cJSON_AddItemToArray(section, GS_JSON(text));
        free(text);
        free(slug);
    }
}

/* Below the title: the sections. */
static void add_contents(page *p) {
    size_t count, size = 0;
    char *html = NULL;
    cmark_node **headings = ast_all(p->a.root, "heading", &count);
    FILE *to = count > 3 ? open_memstream(&html, &size) : NULL;
    if (to) {
        fputs("<ul class=\"contents\">\n", to);
        for (size_t i = 0; i < count; i++) {
            if (cmark_node_get_heading_level(headings[i]) != 2) continue;
            char *slug = ast_slug(headings[i]), *words = ast_words(headings[i]);
            fprintf(to, "<li><a href=\"#%s\">", slug);
            site_escape(to, words, strlen(words));
            fputs("</a></li>\n", to);
            free(slug);
            free(words);
        }
        fputs("</ul>\n", to);
        fclose(to);
        cmark_node_insert_after(headings[0], ast_raw(true, html));
        free(html);
    }
    free(headings);
}

static char *title_of(const page *p) {
    for (cmark_node *n = cmark_node_first_child(p->a.root); n; n = cmark_node_next(n))
        if (ast_is(n, "heading")) return ast_words(n);
    return strdup(source_of(p));
}

static void turn(page *p) {
    add_contents(p);
    turn_all(p, "heading", turn_heading);
    turn_all(p, "link", turn_link);
    turn_all(p, "image", turn_image);
    turn_all(p, "code", turn_code);
    turn_all(p, "code_block", turn_code_block);
    turn_all(p, "table", turn_table);
    turn_all(p, "block_quote", turn_quote);
}

static gs_status write_page(page *p) {
    char *html = NULL;
    size_t size = 0;
    FILE *to = open_memstream(&html, &size);
    if (!to) return gs_fail(GS_E_MEMORY, "no memory for the page of %s", source_of(p));
    char *title = title_of(p);
    if (p->index < p->s->lessons) keep_texts(p, title);
    turn(p);
    char *body = ast_html(&p->a, p->a.root);
    /* Only now: turning may have moved the list of pages. */
    const site_page *of = &p->s->pages[p->index];
    site_begin(p->s, to, of, title);
    fputs(body, to);
    site_end(p->s, to, of);
    fclose(to);
    gs_status status = p->status == GS_OK ? site_put(p->s, of->name, html, size) : p->status;
    free(html);
    free(body);
    free(title);
    return status;
}

gs_status site_markdown(site *s, size_t index) {
    char *text;
    size_t bytes;
    GS_TRY(site_read(s, s->pages[index].source, &text, &bytes));
    page p = {.s = s, .index = index, .text = text};
    gs_status status = ast_parse(text, bytes, &p.a);
    if (status == GS_OK) status = write_page(&p);
    ast_free(&p.a);
    free(text);
    return status;
}
