#include "comm/process.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* The letter in the text of /proc/PID/stat, "4711 (name) S 1 ...". The name may hold anything, also a ')' and a line's
 * end; what follows it does not. */
static char state_in(const char *stat) {
    const char *end = strrchr(stat, ')');
    return end && end[1] == ' ' ? end[2] : 0;
}

/* 0: there is no such process. */
static char state_of(long pid) {
    char path[64], text[512];
    snprintf(path, sizeof path, "/proc/%ld/stat", pid);
    FILE *f = fopen(path, "re");
    if (!f) return 0;
    text[fread(text, 1, sizeof text - 1, f)] = '\0';
    fclose(f);
    return state_in(text);
}

bool gs_process_is_stopped(long pid) {
    return state_of(pid) == 'T';
}

bool gs_process_has_ended(long pid) {
    char state = state_of(pid);
    return state == 0 || state == 'Z' || state == 'X';
}

/* The function of the kernel in which it sleeps: " (pipe_read)", or "" where that is not shown. */
static void append_place(long pid, char *text, size_t size) {
    char path[64], place[48] = "";
    size_t used = strlen(text);
    snprintf(path, sizeof path, "/proc/%ld/wchan", pid);
    FILE *f = fopen(path, "re");
    if (!f) return;
    if (fgets(place, sizeof place, f) && isalpha((unsigned char)place[0]))
        snprintf(text + used, size - used, " (%s)", place);
    fclose(f);
}

void gs_process_does(long pid, char *text, size_t size) {
    char state = state_of(pid);
    const char *does = state == 'T'   ? "is stopped"
                       : state == 't' ? "is stopped by a debugger"
                       : state == 'R' ? "computes"
                       : state == 'D' ? "waits for a device"
                       : state == 'S' ? "sleeps"
                       : state == 'Z' ? "has ended"
                                      : "";
    snprintf(text, size, "%s", does);
    if (state == 'S') append_place(pid, text, size);
}
