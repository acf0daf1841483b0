/* Counts a kernel's loads, from the histogram of each kernel's instructions that Oclgrind prints.
 *
 *     Instructions executed for kernel 'product_vector':
 *                 2048 - load global (8192 bytes)
 *                  256 - call _Z7vload16mPU3AS1Kf()       a vload16; AS1: from global memory, AS3: from local memory
 */
#include "lab.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* "  65,536 - load ...": with separators, as some locales write the count. */
static size_t count_of(const char *line, const char *end) {
    size_t count = 0;
    for (; line < end; line++)
        if (isdigit((unsigned char)*line)) count = 10 * count + (size_t)(*line - '0');
    return count;
}

/* An OpenCL built-in that takes a pointer into this address space and does more than store: vload16, atomic_or. */
static bool takes(const char *what, const char *space) {
    return strncmp(what, " - call _Z", 10) == 0 && strstr(what, space) && !strstr(what, "vstore");
}

/* __constant memory counts as global memory. */
static void add_line(const char *line, lab_loads *loads) {
    const char *what = strstr(line, " - ");
    if (!what) return;
    size_t count = count_of(line, what);
    if (strncmp(what, " - load global", 14) == 0 || strncmp(what, " - load constant", 16) == 0 ||
        takes(what, "PU3AS1") || takes(what, "PU3AS2"))
        loads->global += count;
    else if (strncmp(what, " - load local", 13) == 0 || takes(what, "PU3AS3"))
        loads->local += count;
}

/* "llvm.memcpy.p0i8.p1i8.i64()", "llvm.memcpy.p0.p1.i64()": copies an unknown number of bytes that are not private. */
static bool copies_whole(const char *line) {
    const char *from = strstr(line, "call llvm.mem");
    for (int points = 0; from && points < 3; points++) from = strchr(from + 1, '.');
    return from && from[1] == 'p' && from[2] >= '1' && from[2] <= '3';
}

typedef struct histogram {
    bool found, copies;
} histogram;

static histogram read_histogram(FILE *f, const char *kernel, lab_loads *loads) {
    char line[400], heading[200];
    histogram h = {0};
    bool inside = false;
    *loads = (lab_loads){0};
    snprintf(heading, sizeof heading, "Instructions executed for kernel '%s':", kernel);
    while (fgets(line, sizeof line, f)) {
        if (strncmp(line, "Instructions executed", 21) == 0) {
            inside = strncmp(line, heading, strlen(heading)) == 0;
            h.found = h.found || inside;
        } else if (inside) {
            add_line(line, loads);
            h.copies = h.copies || copies_whole(line);
        }
    }
    return h;
}

gs_status lab_count_loads(gs_status (*run)(void *context), void *context, const char *kernel,
                          lab_loads *loads) {
    fflush(stdout);
    FILE *printed = tmpfile(); /* Oclgrind prints to standard output */
    int before = dup(STDOUT_FILENO);
    if (!printed || before < 0 || dup2(fileno(printed), STDOUT_FILENO) < 0)
        return gs_fail(GS_E_FILE, "cannot read what Oclgrind prints: %s", strerror(errno));
    gs_status status = run(context);
    fflush(stdout);
    dup2(before, STDOUT_FILENO);
    close(before);
    rewind(printed);
    histogram h = read_histogram(printed, kernel, loads);
    fclose(printed);
    if (status == GS_OK && !h.found)
        return gs_fail(GS_E_USAGE, "%s: nothing was counted: start Oclgrind with --inst-counts", kernel);
    if (status == GS_OK && h.copies)
        return gs_fail(GS_E_USAGE,
                       "%s: it copies a struct or an array as a whole, whose loads cannot be counted",
                       kernel);
    return status;
}
