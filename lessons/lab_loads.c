/* How often a kernel loads: Oclgrind prints a histogram of the instructions of each kernel, and here it is read.
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

/* "  65,536 - load ...": some languages write it so. */
static size_t count_of(const char *line, const char *end) {
    size_t count = 0;
    for (; line < end; line++)
        if (isdigit((unsigned char)*line)) count = 10 * count + (size_t)(*line - '0');
    return count;
}

static void add_line(const char *line, lab_loads *loads) {
    const char *what = strstr(line, " - ");
    if (!what) return;
    bool vector = strstr(what, "vload") != NULL;
    size_t count = count_of(line, what);
    if (strncmp(what, " - load global", 14) == 0 || (vector && strstr(what, "PU3AS1")))
        loads->global += count;
    if (strncmp(what, " - load local", 13) == 0 || (vector && strstr(what, "PU3AS3"))) loads->local += count;
}

static bool read_histogram(FILE *f, const char *kernel, lab_loads *loads) {
    char line[400], heading[200];
    bool inside = false, found = false;
    *loads = (lab_loads){0};
    snprintf(heading, sizeof heading, "Instructions executed for kernel '%s':", kernel);
    while (fgets(line, sizeof line, f)) {
        if (strncmp(line, "Instructions executed", 21) == 0) {
            inside = strncmp(line, heading, strlen(heading)) == 0;
            found = found || inside;
        } else if (inside) {
            add_line(line, loads);
        }
    }
    return found;
}

gs_status lab_count_loads(gs_status (*run)(void *context), void *context, const char *kernel,
                          lab_loads *loads) {
    fflush(stdout);
    FILE *printed = tmpfile(); /* what Oclgrind prints, it prints to standard output */
    int before = dup(STDOUT_FILENO);
    if (!printed || before < 0 || dup2(fileno(printed), STDOUT_FILENO) < 0)
        return gs_fail(GS_E_FILE, "cannot read what Oclgrind prints: %s", strerror(errno));
    gs_status status = run(context);
    fflush(stdout);
    dup2(before, STDOUT_FILENO);
    close(before);
    rewind(printed);
    bool found = read_histogram(printed, kernel, loads);
    fclose(printed);
    if (status == GS_OK && !found)
        return gs_fail(GS_E_USAGE, "%s: nothing was counted: start Oclgrind with --inst-counts", kernel);
    return status;
}
