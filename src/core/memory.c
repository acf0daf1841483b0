#include "core/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

double gs_peak_memory(void) {
    char line[128];
    double kilobytes = 0;
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "VmHWM: %lf kB", &kilobytes) == 1) break;
    if (f) fclose(f);
    if (kilobytes > 0) return kilobytes * 1024;
    struct rusage usage; /* without /proc */
    getrusage(RUSAGE_SELF, &usage);
    return (double)usage.ru_maxrss * 1024;
}

enum { PIECE = 1024 /* bytes: below every threshold of the C library */ };

void gs_copy(void *restrict to, const void *restrict from, size_t bytes) {
    unsigned char *t = to;
    const unsigned char *f = from;
    for (; bytes > PIECE; bytes -= PIECE, t += PIECE, f += PIECE) memcpy(t, f, PIECE);
    if (bytes > 0) memcpy(t, f, bytes);
}

bool gs_grow(void *array, size_t used, size_t *room, size_t size) {
    void *memory, *larger;
    if (used < *room) return true;
    memcpy(&memory, array, sizeof memory); /* the pointer's type is not void * */
    size_t more = *room ? 2 * *room : 64;
    if (!(larger = realloc(memory, more * size))) return false;
    memcpy(array, &larger, sizeof larger);
    *room = more;
    return true;
}
