#include "lessons/pages/site.h"

#include <glob.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "io/file.h"

enum { MOST = 4 << 20 }; /* bytes of a file that becomes a page */

static bool ends_with(const char *text, const char *end) {
    size_t n = strlen(text), e = strlen(end);
    return n >= e && strcmp(text + n - e, end) == 0;
}

/* ---- names ---- */

void site_up(const char *name, char *up, size_t size) {
    size_t used = 0;
    for (; *name; name++)
        if (*name == '/' && used + 4 < size) used += (size_t)snprintf(up + used, size - used, "../");
    up[used] = '\0';
}

/* Resolve "." and ".." in place. false: it leads out of the tree. */
static bool normalise(char *path) {
    char *to = path;
    for (char *from = path; *from;) {
        size_t n = strcspn(from, "/"), next = n + (from[n] == '/');
        if (n == 2 && memcmp(from, "..", 2) == 0) {
            if (to == path) return false;
            for (to--; to > path && to[-1] != '/';) to--;
        } else if (n > 0 && !(n == 1 && *from == '.')) {
            memmove(to, from, next);
            to += next;
        }
        from += next;
    }
    if (to > path && to[-1] == '/') to--;
    *to = '\0';
    return *path != '\0';
}

static bool is_file(const site *s, const char *source) {
    char path[PATH_MAX];
    struct stat st;
    snprintf(path, sizeof path, "%s/%s", s->tree, source);
    return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

bool site_find(const site *s, const char *source, const char *link, char *found, size_t size) {
    char folder[PATH_MAX];
    snprintf(folder, sizeof folder, "%s", source);
    char *slash = strrchr(folder, '/');
    *(slash ? slash : folder) = '\0';
    const char *from[] = {folder, "", "src"};
    for (size_t i = 0; i < sizeof from / sizeof *from; i++) {
        if ((size_t)snprintf(found, size, "%s%s%s", from[i], *from[i] ? "/" : "", link) >= size) return false;
        if (normalise(found) && is_file(s, found)) return true;
    }
    return false;
}

/* lessons/07-all-reduce/README.md is the page 07-all-reduce.html; another file keeps its place below files/. */
static void name_of(const char *source, char *name, size_t size) {
    char lesson[64];
    if (strcmp(source, "lessons/README.md") == 0)
        snprintf(name, size, "index.html");
    else if (sscanf(source, "lessons/%63[0-9a-z-]/README.md", lesson) == 1 && ends_with(source, "/README.md"))
        snprintf(name, size, "%s.html", lesson);
    else
        snprintf(name, size, "files/%s%s", source, ends_with(source, ".svg") ? "" : ".html");
}

/* What handout.sh leaves out is for the teacher: students read the site. What commands have made is no source. */
static bool for_readers(const char *source) {
    const char *base = strrchr(source, '/'), *const made[] = {".html", ".npy", ".safetensors"};
    base = base ? base + 1 : source;
    if (strncmp(source, "build/", 6) == 0) return false;
    for (size_t i = 0; i < sizeof made / sizeof *made; i++)
        if (ends_with(base, made[i])) return false;
    return strncmp(base, "solution.", 9) != 0 && strcmp(base, "answers.md") != 0 &&
           strcmp(base, "rubric.md") != 0;
}

const char *site_want(site *s, const char *source) {
    char name[PATH_MAX];
    for (size_t i = 0; i < s->count; i++)
        if (strcmp(s->pages[i].source, source) == 0) return s->pages[i].name;
    if (!for_readers(source) || !is_file(s, source)) return NULL;
    if (s->count == s->room) {
        size_t room = s->room ? 2 * s->room : 64;
        site_page *more = realloc(s->pages, room * sizeof *more);
        if (!more) return NULL;
        s->pages = more;
        s->room = room;
    }
    name_of(source, name, sizeof name);
    site_page page = {.source = strdup(source), .name = strdup(name)};
    if (!page.source || !page.name) {
        free(page.source);
        free(page.name);
        return NULL;
    }
    s->pages[s->count++] = page;
    return page.name;
}

/* ---- files ---- */

gs_status site_read(const site *s, const char *source, char **text, size_t *bytes) {
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", s->tree, source);
    return gs_file_read(path, MOST, text, bytes);
}

gs_status site_put(const site *s, const char *name, const char *text, size_t bytes) {
    char path[PATH_MAX], folder[PATH_MAX];
    gs_file_writer w = {0};
    snprintf(path, sizeof path, "%s/%s", s->folder, name);
    snprintf(folder, sizeof folder, "%s", path);
    *strrchr(folder, '/') = '\0';
    if (!gs_file_make_folders(folder)) return gs_fail(GS_E_FILE, "cannot make the folder %s", folder);
    GS_TRY(gs_file_writer_open(path, &w));
    if (fwrite(text, 1, bytes, w.file) < bytes) {
        gs_file_writer_discard(&w);
        return gs_fail(GS_E_FILE, "cannot write %s", path);
    }
    return gs_file_writer_commit(&w);
}

static gs_status copy(const site *s, const char *source, const char *name) {
    char *text;
    size_t bytes;
    GS_TRY(site_read(s, source, &text, &bytes));
    gs_status status = site_put(s, name, text, bytes);
    free(text);
    return status;
}

void site_escape(FILE *to, const char *text, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) switch (text[i]) {
        case '&':
            fputs("&amp;", to);
            break;
        case '<':
            fputs("&lt;", to);
            break;
        case '>':
            fputs("&gt;", to);
            break;
        case '"':
            fputs("&quot;", to);
            break;
        default:
            fputc(text[i], to);
        }
}

/* ---- the frame of a page ---- */

static void neighbours(const site *s, FILE *to, const site_page *page, const char *where) {
    char up[PATH_MAX];
    site_up(page->name, up, sizeof up);
    size_t i = (size_t)(page - s->pages);
    bool lesson = i < s->lessons && i > 0;
    fprintf(to, "<nav class=\"%s\" aria-label=\"Lessons\">", where);
    if (lesson && i > 1)
        fprintf(to, "<a rel=\"prev\" href=\"%s%s\">← <span>Previous lesson</span></a>", up,
                s->pages[i - 1].name);
    fprintf(to, "<a class=\"all\" href=\"%sindex.html\">All lessons</a>", up);
    if (i + 1 < s->lessons)
        fprintf(to, "<a rel=\"next\" href=\"%s%s\"><span>%s</span> →</a>", up, s->pages[i + 1].name,
                i ? "Next lesson" : "Begin with lesson 0");
    fputs("</nav>\n", to);
}

void site_begin(const site *s, FILE *to, const site_page *page, const char *title) {
    char up[PATH_MAX];
    site_up(page->name, up, sizeof up);
    fputs("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
          "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>",
          to);
    site_escape(to, title, strlen(title));
    fprintf(to, "</title>\n<link rel=\"stylesheet\" href=\"%slessons.css\">\n", up);
    fprintf(to, "<script src=\"%slessons.js\" data-up=\"%s\" defer></script>\n</head>\n<body>\n", up, up);
    neighbours(s, to, page, "top");
    fputs("<main>\n", to);
}

void site_end(const site *s, FILE *to, const site_page *page) {
    fputs("</main>\n", to);
    neighbours(s, to, page, "bottom");
    fputs("</body>\n</html>\n", to);
}

/* ---- all ---- */

static gs_status want_lessons(site *s) {
    char pattern[PATH_MAX];
    glob_t found = {0};
    if (!site_want(s, "lessons/README.md"))
        return gs_fail(GS_E_FILE, "there is no lessons/README.md in %s", s->tree);
    snprintf(pattern, sizeof pattern, "%s/lessons/[0-9][0-9]-*/README.md", s->tree);
    if (glob(pattern, 0, NULL, &found) == 0)
        for (size_t i = 0; i < found.gl_pathc; i++)
            (void)!site_want(s, found.gl_pathv[i] + strlen(s->tree) + 1);
    globfree(&found);
    s->lessons = s->count;
    return GS_OK;
}

static gs_status write_pages(site *s) {
    GS_TRY(want_lessons(s));
    GS_TRY(copy(s, "lessons/pages/lessons.css", "lessons.css"));
    GS_TRY(copy(s, "lessons/pages/lessons.js", "lessons.js"));
    for (size_t i = 0; i < s->count; i++) {
        const char *source = s->pages[i].source;
        if (ends_with(source, ".svg"))
            GS_TRY(copy(s, source, s->pages[i].name));
        else if (ends_with(source, ".md"))
            GS_TRY(site_markdown(s, i));
        else
            GS_TRY(site_source(s, i));
    }
    char *texts = cJSON_PrintUnformatted(s->texts), *script = NULL;
    int length = texts ? asprintf(&script, "const texts = %s;\n", texts) : -1;
    gs_status status = length < 0 ? gs_fail(GS_E_MEMORY, "no memory for the lessons' texts")
                                  : site_put(s, "texts.js", script, (size_t)length);
    if (length >= 0) free(script);
    cJSON_free(texts);
    return status;
}

gs_status site_write(const char *tree, const char *folder, const char *gradsum) {
    site s = {.tree = tree, .folder = folder, .gradsum = gradsum, .texts = cJSON_CreateArray()};
    gs_status status = write_pages(&s);
    if (status == GS_OK)
        printf("%zu lessons, and %zu files that they name: open %s/index.html\n", s.lessons - 1,
               s.count - s.lessons, folder);
    for (size_t i = 0; i < s.count; i++) {
        free(s.pages[i].source);
        free(s.pages[i].name);
    }
    free(s.pages);
    cJSON_Delete(s.texts);
    return status;
}
