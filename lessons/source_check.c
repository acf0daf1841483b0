#include "source_check.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME = 200, DEPTH = 100 };

static char sentence[600];

static bool begins(const char *text, const char *with) {
    return strncmp(text, with, strlen(with)) == 0;
}

/* ---- words ---- */

static const char *const FORBIDDEN[] = {
    "asm", "__asm", "__asm__", "__attribute__", "__attribute", "__declspec", "_Pragma", "__pragma", NULL};
static const char *const FORBIDDEN_BEGINNINGS[] = {"__asan_", "__lsan_", "__ubsan_", "__sanitizer_",
                                                   "__real_", "__wrap_", NULL};

static const char *check_word(const char *word, int line) {
    bool wrong = false;
    for (const char *const *w = FORBIDDEN; *w; w++) wrong = wrong || strcmp(word, *w) == 0;
    for (const char *const *w = FORBIDDEN_BEGINNINGS; *w; w++) wrong = wrong || begins(word, *w);
    if (!wrong) return NULL;
    snprintf(sentence, sizeof sentence, "line %d: it uses %s, which no lab needs", line, word);
    return sentence;
}

/* The position after a string or character constant. */
static const char *skip_constant(const char *at) {
    char quote = *at++;
    while (*at && *at != '\n' && *at != quote) at += *at == '\\' && at[1] ? 2 : 1;
    return at + (*at == quote);
}

/* Finds spellings that compilers read differently: clang processes trigraphs and line splices even in preprocessed
 * text; gcc does not. */
static const char *check_spelling(const char *at, int line) {
    const size_t length = strcspn(at, "\n");
    size_t end = length;
    while (end > 0 && isspace((unsigned char)at[end - 1])) end--;
    const char *wrong = end > 0 && at[end - 1] == '\\' ? "a backslash at the end of a line" : NULL;
    for (size_t i = 0; i + 2 < length; i++)
        if (at[i] == '?' && at[i + 1] == '?' && strchr("=/'()!<>-", at[i + 2])) wrong = "a trigraph";
    if (!wrong) return NULL;
    snprintf(sentence, sizeof sentence, "line %d: it uses %s, which no lab needs", line, wrong);
    return sentence;
}

static const char *check_line(const char *at, int line) {
    char word[NAME];
    if (check_spelling(at, line)) return sentence;
    while (*at && *at != '\n') {
        if (*at == '"' || *at == '\'') {
            at = skip_constant(at);
        } else if (isalpha((unsigned char)*at) || *at == '_') {
            size_t n = strspn(at, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789");
            snprintf(word, sizeof word, "%.*s", (int)(n < NAME ? n : NAME - 1), at);
            if (check_word(word, line)) return sentence;
            at += n;
        } else if (isdigit((unsigned char)*at)) { /* 0xasm is a number */
            while (isalnum((unsigned char)*at) || *at == '_' || *at == '.') at++;
        } else if ((at[0] == '[' && at[1] == '[') || (at[0] == '<' && at[1] == ':' && at[2] == '<')) {
            snprintf(sentence, sizeof sentence, "line %d: it uses an attribute, which no lab needs", line);
            return sentence;
        } else {
            at++;
        }
    }
    return NULL;
}

/* The stack of files that the compiler reads: the marker "# 12 "file" 1" enters a file, a marker ending in 2 returns to
 * one, and a marker without such a number comes from a #line, or follows many empty lines in the same file. */
typedef struct place {
    int depth, line;
    char file[DEPTH][NAME];
} place;

static const char *renamed(const char *file) {
    snprintf(sentence, sizeof sentence, "a #line says that it is \"%s\"; no lab needs one", file);
    return sentence;
}

static const char *read_marker(place *p, const char *at) {
    char file[NAME] = "";
    int line = 0, flag = 0;
    if (sscanf(at, "# %d \"%199[^\"]\" %d", &line, file, &flag) < 2) return NULL;
    p->line = line;
    if (flag == 1 && p->depth < DEPTH - 1) {
        strcpy(p->file[++p->depth], file);
    } else if (flag == 2 && p->depth > 0) {
        p->depth--;
    } else if (!*p->file[0] || p->depth == 0) {
        strcpy(p->file[0], file);
    }
    /* <built-in> and <command-line> come before the file's own lines */
    bool same = strcmp(p->file[p->depth], file) == 0 || *file == '<';
    return same || flag == 1 ? NULL : renamed(file);
}

const char *lab_check_words(const char *text, const char *file) {
    static place p;
    p = (place){0};
    bool seen = false, defined = false;
    for (const char *at = text; *at; at += strcspn(at, "\n"), at += *at == '\n') {
        if (at[0] == '#' && at[1] == ' ') {
            const char *wrong = read_marker(&p, at);
            if (wrong) return wrong;
            if (defined && p.depth > 0)
                return "it includes a file behind a #define, which would change what is in it";
            bool own = strcmp(p.file[p.depth], file) == 0;
            if (seen && p.depth == 0 && !own) return renamed(p.file[0]);
            seen = seen || (own && p.line > 0); /* gcc begins with line 0 */
            continue;
        }
        if (strcmp(p.file[p.depth], file) == 0) {
            if (begins(at + strspn(at, " \t"), "#pragma")) {
                snprintf(sentence, sizeof sentence, "line %d: it uses #pragma, which no lab needs", p.line);
                return sentence;
            }
            defined = defined || begins(at, "#define") || begins(at, "#undef");
            if (check_line(at, p.line)) return sentence;
        }
        p.line++;
    }
    return NULL;
}

/* ---- included files ---- */

/* Removes each "NAME/..", as in "/usr/lib/gcc/x/12/../../../../include/a.h". */
static void shorten(char *path) {
    char *up;
    while ((up = strstr(path, "/../"))) {
        char *name = up;
        while (name > path && name[-1] != '/') name--;
        memmove(name > path ? name - 1 : name, up + 3, strlen(up + 3) + 1);
    }
}

static bool is_allowed(char *path) {
    static const char *const systems[] = {"/usr/include/",
                                          "/usr/lib/gcc/",
                                          "/usr/lib/llvm",
                                          "/usr/lib/clang/",
                                          "/usr/local/include/",
                                          "/usr/lib/linux/uapi/", /* the kernel's headers on Debian 13 */
                                          NULL};
    static const char *const ours[] = {"src/", "cpu/", "lessons/", NULL};
    if (*path == '/') shorten(path);
    if (strstr(path, "/../") || begins(path, "../")) return false;
    size_t length = strlen(path);
    for (const char *const *s = systems; *s; s++)
        if (begins(path, *s)) return true;
    for (const char *const *o = ours; *o; o++)
        if (begins(path, *o)) return length > 2 && strcmp(path + length - 2, ".h") == 0;
    return false;
}

const char *lab_check_includes(const char *list, const char *file) {
    char path[4200], shortened[4200];
    for (const char *at = list; *at;) {
        at += strspn(at, " \t\n\\");
        size_t n = strcspn(at, " \t\n");
        snprintf(path, sizeof path, "%.*s", (int)(n < sizeof path ? n : sizeof path - 1), at);
        at += n;
        bool target = n > 0 && path[strlen(path) - 1] == ':';
        snprintf(shortened, sizeof shortened, "%s", path);
        if (n == 0 || target || strcmp(path, file) == 0 || is_allowed(shortened)) continue;
        bool solution = strstr(path, "/solution.") != NULL;
        snprintf(sentence, sizeof sentence,
                 solution ? "it includes a solution"
                          : "it includes %.300s, which is no header of the lessons",
                 path);
        return sentence;
    }
    return NULL;
}

/* ---- symbols ---- */

static const char *const COMMON[] = {
    /* memory and strings */
    "malloc", "calloc", "realloc", "free", "memcpy", "memmove", "memset", "memcmp", "memchr", "strlen",
    "strcmp", "strncmp", "strcpy", "strncpy", "strcat", "strncat", "strchr", "strrchr", "strstr", "qsort",
    "bsearch", "abs", "labs", "llabs", "atoi", "atof", "strtol", "strtod", "strtoul", "rand", "srand",
    /* output */
    "printf", "fprintf", "snprintf", "sprintf", "puts", "fputs", "putchar", "putc", "fputc", "fflush",
    "fwrite", "stdout", "stderr", "perror", "vprintf", "vfprintf", "vsnprintf",
    /* termination */
    "exit", "abort", "__assert_fail",
    /* mathematics; also with the suffix f or l */
    "sqrt", "cbrt", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "pow", "fabs", "floor", "ceil",
    "round", "trunc", "rint", "lrint", "llrint", "lround", "llround", "nearbyint", "fmod", "remainder",
    "fmax", "fmin", "fdim", "fma", "ldexp", "frexp", "scalbn", "ilogb", "logb", "modf", "hypot", "sin", "cos",
    "tan", "asin", "acos", "atan", "atan2", "sinh", "cosh", "tanh", "erf", "erfc", "tgamma", "lgamma",
    "copysign", "nextafter", "sincos",
    /* symbols that the compiler adds */
    "_GLOBAL_OFFSET_TABLE_", "__stack_chk_fail", "__errno_location", "__tls_get_addr", "__isoc23_strtol",
    "__isoc23_strtoul", "__printf_chk", "__fprintf_chk", "__snprintf_chk", "__sprintf_chk", "__memcpy_chk",
    "__memset_chk", "__memmove_chk", "__strcpy_chk", "__strcat_chk", "__fpclassify", "__isnan", "__isinf",
    "__signbit", "__finite", NULL};

static bool is_common(const char *name) {
    size_t length = strlen(name);
    for (const char *const *c = COMMON; *c; c++) {
        size_t n = strlen(*c);
        bool suffix = length == n + 1 && (name[n] == 'f' || name[n] == 'l');
        if (begins(name, *c) && (length == n || suffix)) return true;
    }
    return false;
}

static bool is_sanitizers(const char *name) {
    return begins(name, "__asan_") || begins(name, "__ubsan_") || begins(name, "__odr_asan") ||
           begins(name, "__sanitizer_");
}

/* Parses a line of nm -P, "name T 12 34": the name without a version, and its type. */
static const char *next_symbol(const char *at, char name[NAME], char *type) {
    *type = '\0';
    if (sscanf(at, "%199s %c", name, type) != 2) *name = '\0';
    name[strcspn(name, "@")] = '\0';
    at += strcspn(at, "\n");
    return at + (*at == '\n');
}

static bool is_wanted(const char *must_define, const char *wanted) {
    char name[NAME], type;
    for (const char *at = must_define; *at;) {
        at = next_symbol(at, name, &type);
        if (type == 'U' && strcmp(name, wanted) == 0) return true;
    }
    return false;
}

static bool is_listed(const char *const *list, const char *name) {
    for (; list && *list; list++)
        if (strcmp(*list, name) == 0) return true;
    return false;
}

const char *lab_check_symbols(const char *symbols, const char *const *may_call, const char *must_define) {
    char name[NAME], type;
    for (const char *at = symbols; *at;) {
        at = next_symbol(at, name, &type);
        if (!*name || is_sanitizers(name)) continue;
        bool undefined = type == 'U' || type == 'w' || type == 'v';
        bool library = begins(name, "gs_") || begins(name, "lab_") || begins(name, "__");
        if (undefined && !is_common(name) && !is_listed(may_call, name) && strcmp(name, "lab_blank") != 0 &&
            !is_wanted(must_define, name)) {
            snprintf(sentence, sizeof sentence,
                     "it uses %s, which it does not define and this lab does not need%s", name,
                     begins(name, "gs_") ? " (tasks.h says what it may use)" : "");
            return sentence;
        }
        if (!undefined && isupper((unsigned char)type) && library && !is_wanted(must_define, name)) {
            snprintf(sentence, sizeof sentence, "it defines %s, which is the library's", name);
            return sentence;
        }
    }
    return NULL;
}
