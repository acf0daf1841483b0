#include "lessons/pages/slides.h"

#include <ctype.h>
#include <glob.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "io/file.h"
#include "lessons/pages/site.h"

typedef struct lecture {
    site s;             /* where it is read and written */
    const char *lesson; /* "lessons/07-all-reduce" */
    readme r;
    char title[200];
    int line; /* of slides.txt */
    int slides, wrong;
    bool in_list;
    FILE *to;
} lecture;

/* Every line that is wrong is named, not only the first. */
static gs_status wrong(lecture *l, const char *what, const char *text) {
    fprintf(stderr, "%s/slides.txt:%d: %s '%s'\n", l->lesson, l->line, what, text);
    l->wrong++;
    return GS_OK;
}

/* ---- a slide ---- */

static void end_list(lecture *l) {
    if (l->in_list) fputs("</ul>\n", l->to);
    l->in_list = false;
}

static void end_slide(lecture *l) {
    end_list(l);
    if (l->slides > 0)
        fprintf(l->to, "</div>\n<footer><span>%s</span><span>%d</span></footer></section></article>\n",
                l->title, l->slides);
}

static void begin_slide(lecture *l, const char *kind, const char *title) {
    end_slide(l);
    l->slides++;
    fprintf(l->to, "<article id=\"%d\"><section class=\"%s\">\n", l->slides, kind);
    if (*title) {
        fputs("<h2>", l->to);
        show_words(l->to, title);
        fputs("</h2>\n", l->to);
    }
    fputs("<div class=\"body\">\n", l->to);
}

static void inside(lecture *l, cmark_node *node) {
    for (cmark_node *n = cmark_node_first_child(node); n; n = cmark_node_next(n)) {
        if (ast_is(n, "code_block")) {
            show_text(l->to, cmark_node_get_literal(n), 1, 0);
            continue;
        }
        char *html = ast_html(&l->r.a, n);
        fputs(html, l->to);
        free(html);
    }
}

/* ---- the lines of slides.txt ---- */

/* "3-9 rest": the two numbers, and what follows. */
static const char *range(const char *text, int *first, int *last) {
    int used = 0;
    *first = 1;
    *last = 0;
    if (sscanf(text, "%d-%d %n", first, last, &used) == 2 && used > 0) return text + used;
    *first = 1;
    *last = 0;
    return text;
}

static gs_status say(lecture *l, const char *kind, const char *words) {
    if (!readme_says(&l->r, words)) return wrong(l, "the README does not say", words);
    bool item = strcmp(kind, "list") == 0;
    if (!item) end_list(l);
    if (item && !l->in_list) fputs("<ul>\n", l->to);
    l->in_list = item;
    char *capital = strdup(words);
    if (!capital) return gs_fail(GS_E_MEMORY, "no memory for a slide");
    size_t letters = strspn(words, "abcdefghijklmnopqrstuvwxyz"); /* bf16 and sgd_update stay as they are */
    if (letters > 0 && strchr(" ,:", words[letters])) *capital = (char)toupper((unsigned char)*words);
    fprintf(l->to, item ? "<li>" : "<p class=\"%s\">", kind);
    show_words(l->to, capital);
    fputs(item ? "</li>\n" : "</p>\n", l->to);
    free(capital);
    return GS_OK;
}

static gs_status show_block(lecture *l, const char *text) {
    int first, last, found;
    const char *words = range(text, &first, &last);
    cmark_node *block = readme_block(&l->r, words, &found);
    if (!block)
        return wrong(l, found ? "several blocks of the README have" : "no block of the README has", words);
    end_list(l);
    if (ast_is(block, "table"))
        show_table(l->to, &l->r.a, block);
    else
        show_text(l->to, cmark_node_get_literal(block), first, last);
    return GS_OK;
}

static gs_status show_figure(lecture *l, const char *text) {
    char path[PATH_MAX], name[100];
    char *figure;
    size_t bytes;
    int first, last, length = (int)strcspn(text, " ");
    snprintf(name, sizeof name, "%.*s", length, text);
    (void)range(text + length + (text[length] == ' '), &first, &last);
    snprintf(path, sizeof path, "%s/%s", l->lesson, name);
    if (site_read(&l->s, path, &figure, &bytes) != GS_OK) return wrong(l, "there is no figure", name);
    end_list(l);
    if (strstr(name, ".svg"))
        show_svg(l->to, figure);
    else
        show_text(l->to, figure, first, last);
    free(figure);
    return GS_OK;
}

/* "Predict before you run (7a)", and then the question without its name. */
static void name_box(cmark_node *box, const char *id) {
    char name[80];
    cmark_node *strong = cmark_node_first_child(cmark_node_first_child(box)), *text = cmark_node_next(strong);
    const char *begin = text && ast_is(text, "text") ? strstr(cmark_node_get_literal(text), "). ") : NULL;
    if (!begin) return;
    char *question = strdup(begin + 3);
    snprintf(name, sizeof name, "Predict before you run (%s)", id);
    cmark_node_set_literal(cmark_node_first_child(strong), name);
    if (question) cmark_node_set_literal(text, question);
    free(question);
}

static gs_status show_box(lecture *l, const char *id) {
    cmark_node *box = readme_box(&l->r, id);
    if (!box) return wrong(l, "the README has no box", id);
    begin_slide(l, "predict", "");
    name_box(box, id);
    inside(l, box);
    return GS_OK;
}

static bool begins(const char *line, const char *word, const char **rest) {
    size_t n = strlen(word);
    if (strncmp(line, word, n) != 0) return false;
    *rest = line + n + strspn(line + n, " ");
    return true;
}

static gs_status take_line(lecture *l, const char *line) {
    const char *rest;
    if (*line == '\0') return GS_OK;
    if (begins(line, "# ", &rest)) {
        begin_slide(l, "plain", rest);
        return GS_OK;
    }
    if (begins(line, "predict ", &rest)) return show_box(l, rest);
    if (l->slides < 2) return wrong(l, "before the first '# Title':", line);
    if (begins(line, "- ", &rest)) return say(l, "list", rest);
    if (begins(line, "> ", &rest)) return say(l, "large", rest);
    if (begins(line, "block ", &rest)) return show_block(l, rest);
    if (begins(line, "figure ", &rest)) return show_figure(l, rest);
    return say(l, "sentence", line);
}

static gs_status take_lines(lecture *l, char *text) {
    for (char *at = text, *end; *at; at = end) {
        end = at + strcspn(at, "\n");
        if (*end) *end++ = '\0';
        l->line++;
        GS_TRY(take_line(l, at));
    }
    return GS_OK;
}

/* ---- what each lecture has ---- */

static void first_slide(lecture *l) {
    char *name = strdup(l->title), *colon = name ? strstr(name, ": ") : NULL;
    cmark_node *goal = readme_paragraph(&l->r, "Goal.");
    begin_slide(l, "title", "");
    if (colon) *colon = '\0';
    fprintf(l->to, "<p class=\"number\">%s</p>\n<h1>", colon ? name : "");
    const char *title = colon ? colon + 2 : l->title;
    fputc(toupper((unsigned char)*title), l->to);
    site_escape(l->to, title + 1, strlen(title + 1));
    fputs("</h1>\n", l->to);
    if (goal) {
        char *html = ast_html(&l->r.a, goal);
        fputs(html, l->to);
        free(html);
    }
    free(name);
}

static void last_slides(lecture *l) {
    cmark_node *tasks = readme_after(&l->r, "The lab", "table"),
               *questions = readme_after(&l->r, "Questions", "list");
    if (tasks) {
        begin_slide(l, "plain", "The lab");
        show_table(l->to, &l->r.a, tasks);
    }
    int count = 0, of = 0;
    for (cmark_node *item = questions ? cmark_node_first_child(questions) : NULL; item;
         item = cmark_node_next(item))
        of++;
    for (cmark_node *item = questions ? cmark_node_first_child(questions) : NULL; item;
         item = cmark_node_next(item)) {
        char title[40];
        snprintf(title, sizeof title, "Question %d of %d", ++count, of);
        begin_slide(l, "question", title);
        fputs("<div class=\"words\">", l->to);
        inside(l, item);
        fputs("</div>\n", l->to);
    }
    end_slide(l);
}

static gs_status put_part(lecture *l, const char *name, const char *tag) {
    char *text;
    size_t bytes;
    GS_TRY(site_read(&l->s, name, &text, &bytes));
    fprintf(l->to, "<%s>\n%s</%s>\n", tag, text, tag);
    free(text);
    return GS_OK;
}

static gs_status write_all(lecture *l, char *choice) {
    fprintf(l->to,
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
            "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>%s</title>\n",
            l->title);
    GS_TRY(put_part(l, "lessons/pages/slides.css", "style"));
    fputs("</head>\n<body>\n", l->to);
    first_slide(l);
    GS_TRY(take_lines(l, choice));
    last_slides(l);
    GS_TRY(put_part(l, "lessons/pages/slides.js", "script"));
    fputs("</body>\n</html>\n", l->to);
    return GS_OK;
}

static gs_status write_lecture(lecture *l, char *choice) {
    char name[200], *html = NULL;
    size_t size = 0;
    l->to = open_memstream(&html, &size);
    if (!l->to) return gs_fail(GS_E_MEMORY, "no memory for the slides of %s", l->lesson);
    snprintf(l->title, sizeof l->title, "%.*s", (int)strcspn(l->r.text + 2, "\n"), l->r.text + 2);
    gs_status status = write_all(l, choice);
    fclose(l->to);
    if (status == GS_OK && l->wrong > 0)
        status =
            gs_fail(GS_E_FORMAT, "%s/slides.txt does not fit its README.md in %d lines", l->lesson, l->wrong);
    snprintf(name, sizeof name, "%s.html", strrchr(l->lesson, '/') + 1);
    if (status == GS_OK) status = site_put(&l->s, name, html, size);
    free(html);
    return status;
}

static gs_status one(lecture *l) {
    char path[PATH_MAX], *text, *choice;
    size_t bytes;
    snprintf(path, sizeof path, "%s/README.md", l->lesson);
    GS_TRY(site_read(&l->s, path, &text, &bytes));
    GS_TRY(readme_open(text, bytes, &l->r));
    snprintf(path, sizeof path, "%s/slides.txt", l->lesson);
    gs_status status = site_read(&l->s, path, &choice, &bytes);
    if (status == GS_OK) {
        status = write_lecture(l, choice);
        free(choice);
    }
    readme_close(&l->r);
    return status;
}

gs_status slides_write(const char *tree, const char *folder) {
    char pattern[PATH_MAX], *index = NULL;
    size_t size = 0;
    glob_t found = {0};
    gs_status status = GS_OK;
    int slides = 0;
    snprintf(pattern, sizeof pattern, "%s/lessons/[0-9][0-9]-*/slides.txt", tree);
    if (glob(pattern, 0, NULL, &found) != 0)
        return gs_fail(GS_E_FILE, "no lesson of %s has a slides.txt", tree);
    FILE *to = open_memstream(&index, &size);
    if (to)
        fputs("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
              "content=\"width=device-width, initial-scale=1\"><title>Slides</title></head>\n"
              "<body style=\"font:18px/1.7 system-ui,sans-serif;max-width:40em;margin:2em auto;padding:0 "
              "1em\">\n"
              "<h1>Slides</h1>\n<p>Arrow keys turn the pages, F fills the screen, and a browser prints a "
              "slide on each "
              "page.</p>\n<ul>\n",
              to);
    for (size_t i = 0; to && i < found.gl_pathc; i++) {
        char *lesson = found.gl_pathv[i] + strlen(tree) + 1;
        *strrchr(lesson, '/') = '\0';
        lecture l = {.s = {.tree = tree, .folder = folder}, .lesson = lesson};
        gs_status this = one(&l);
        if (status == GS_OK) status = this;
        slides += l.slides;
        fprintf(to, "<li><a href=\"%s.html\">%s</a>, %d slides</li>\n", strrchr(lesson, '/') + 1, l.title,
                l.slides);
    }
    if (to) fputs("</ul>\n</body></html>\n", to);
    if (to) fclose(to);
    site s = {.tree = tree, .folder = folder};
    if (status == GS_OK)
        status = to ? site_put(&s, "index.html", index, size) : gs_fail(GS_E_MEMORY, "no memory");
    if (status == GS_OK)
        printf("%zu lectures, %d slides: open %s/index.html\n", found.gl_pathc, slides, folder);
    free(index);
    globfree(&found);
    return status;
}
