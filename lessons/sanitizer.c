/* Sanitizer reports are for experts. They are reduced here to a line of the student's file and the kind of error. */
#include "grader.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *line_end(const char *at) {
    return at + strcspn(at, "\n");
}

/* The first frame before `end` in the student's file, "#1 0x55.. in ring_sum lessons/07-all-reduce/lab.c:57", as
 * "lab.c:57: in ring_sum". */
static bool frame_in(const char *report, const char *end, const char *file, char *text, size_t size) {
    char wanted[300];
    snprintf(wanted, sizeof wanted, "/%s:", file);
    for (const char *at = report; at < end && (at = strstr(at, "    #")) && at < end; at = line_end(at)) {
        const char *in = strstr(at, " in "), *place = strstr(at, wanted), *last = line_end(at);
        if (!in || !place || in > last || place > last) continue;
        int line = atoi(place + strlen(wanted));
        snprintf(text, size, "%s:%d: in %.*s", file, line, (int)strcspn(in + 4, " "), in + 4);
        return true;
    }
    return false;
}

static const char *meaning(const char *kind) {
    static const struct {
        const char *kind, *meaning;
    } known[] = {
        {"heap-buffer-overflow", "an access outside a block of memory"},
        {"stack-buffer-overflow", "an access outside a local array"},
        {"stack-buffer-underflow", "an access outside a local array"},
        {"dynamic-stack-buffer-overflow", "an access outside a local array"},
        {"global-buffer-overflow", "an access outside a static array"},
        {"use-after-poison", "an access outside an array that the function was given"},
        {"heap-use-after-free", "memory is used after free()"},
        {"stack-use-after-scope", "a local variable is used after its block"},
        {"stack-use-after-return", "a local variable is used after its function has returned"},
        {"attempting double-free", "free() twice"},
        {"attempting free", "free() of memory that malloc() did not return"},
        {"stack-overflow", "stack overflow: endless recursion, or a very large local array"},
        {"SEGV", "a pointer that points to no memory"},
        {"FPE", "an integer is divided by 0"},
        {"memcpy-param-overlap", "memcpy() between places that overlap"},
        {"calloc-overflow", "more memory is requested than there can be"},
        {"allocation-size-too-big", "more memory is requested than there can be"},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strncmp(kind, known[i].kind, strlen(known[i].kind)) == 0) return known[i].meaning;
    return NULL;
}

/* "0x602000000018 is located 0 bytes to the right of 8-byte region [...)" -> ": 0 bytes behind the end of 8 bytes" */
static void add_region(const char *report, char *text, size_t size) {
    const char *at = strstr(report, " is located ");
    char direction[8];
    unsigned long bytes, region;
    if (!at || sscanf(at, " is located %lu bytes to the %7s of %lu-byte", &bytes, direction, &region) != 3) {
        if (!at || sscanf(at, " is located %lu bytes inside of %lu-byte", &bytes, &region) != 2) return;
        snprintf(direction, sizeof direction, "inside");
    }
    const char *where = strcmp(direction, "right") == 0  ? "behind the end of"
                        : strcmp(direction, "left") == 0 ? "before"
                                                         : "inside";
    size_t used = strlen(text);
    snprintf(text + used, size - used, ", %lu byte%s %s a block of %lu byte%s", bytes, gs_s(bytes), where,
             region, gs_s(region));
}

static bool address_report(const char *output, const char *file, char *text, size_t size) {
    const char *error = strstr(output, "ERROR: AddressSanitizer: ");
    if (!error) return false;
    const char *kind = error + strlen("ERROR: AddressSanitizer: "), *what = meaning(kind);
    char place[400] = "", access[60] = "";
    const char *end = strstr(kind, "\n\n"); /* later stacks show who allocated the memory */
    frame_in(kind, end ? end : kind + strlen(kind), file, place, sizeof place);
    const char *at = strstr(kind, "\nREAD of size ");
    if (!at) at = strstr(kind, "\nWRITE of size ");
    if (at && (!end || at < end)) {
        bool reads = at[1] == 'R';
        const int bytes = atoi(strstr(at, "size ") + 5);
        snprintf(access, sizeof access, "; %s %d byte%s", reads ? "reads" : "writes", bytes,
                 gs_s((unsigned)bytes));
    }
    const bool beside = strncmp(kind, "use-after-poison", 16) == 0; /* remote/rooms.c poisoned it */
    const int letters = beside ? 0 : (int)strcspn(kind, " :\n(");
    snprintf(text, size, "%s%s%.*s%s%s%s%s", place, *place ? ": " : "", letters, kind,
             what && !beside ? " (" : "", what ? what : "", what && !beside ? ")" : "", access);
    if (*access) add_region(kind, text, size);
    return true;
}

/* "lessons/07-all-reduce/lab.c:57:9: runtime error: index 4 out of bounds for type 'int [4]'" */
static bool behaviour_report(const char *output, char *text, size_t size) {
    static const char mark[] = ": runtime error: ";
    const char *at = strstr(output, mark);
    if (!at) return false;
    const char *begin = at;
    while (begin > output && begin[-1] != '\n' && begin[-1] != '/') begin--;
    snprintf(text, size, "%.*s: %.*s", (int)(at - begin), begin, (int)strcspn(at + strlen(mark), "\n"),
             at + strlen(mark));
    return true;
}

bool lab_sanitizer_report(const char *output, const char *file, char *text, size_t size) {
    return behaviour_report(output, text, size) || address_report(output, file, text, size);
}

bool lab_leak_report(const char *output, const char *file, char *text, size_t size) {
    const char *leak = strstr(output, "irect leak of ");
    if (!leak) return false;
    char place[400] = "";
    const char *end = strstr(leak, "\n\n");
    frame_in(leak, end ? end : leak + strlen(leak), file, place, sizeof place);
    const unsigned long bytes = strtoul(leak + strlen("irect leak of "), NULL, 10);
    snprintf(text, size, "%s%s%lu byte%s never freed", place, *place ? ": " : "", bytes,
             bytes == 1 ? " is" : "s are");
    return true;
}
