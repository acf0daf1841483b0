#include "core/process.h"
#include "core/text.h"

#include <ctype.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <unistd.h>
#include <zlib.h>

/* The state letter in /proc/PID/stat, "4711 (name) S 1 ...". The name may contain anything, even a ')' or a newline;
 * the text after it never contains a ')'. */
static char state_in(const char *stat) {
    const char *end = strrchr(stat, ')');
    return end && end[1] == ' ' ? end[2] : 0;
}

/* The contents of a system file, cut to fit; "" if it cannot be read. Returns the number of bytes. */
static size_t read_file(const char *path, char *text, size_t size) {
    FILE *f = fopen(path, "re");
    const size_t bytes = f ? fread(text, 1, size - 1, f) : 0;
    if (f) fclose(f);
    text[bytes] = '\0';
    return bytes;
}

double gs_boot_id(void) {
    char id[64];
    const size_t bytes = read_file("/proc/sys/kernel/random/boot_id", id, sizeof id);
    return (double)(uint32_t)crc32_z(0, (const unsigned char *)id, bytes);
}

/* The state letter of a process; 0: no such process. */
static char state_of(long pid) {
    char path[64], text[512];
    snprintf(path, sizeof path, "/proc/%ld/stat", pid);
    read_file(path, text, sizeof text);
    return state_in(text);
}

bool gs_process_is_stopped(long pid) {
    return state_of(pid) == 'T';
}

bool gs_process_has_ended(long pid) {
    char state = state_of(pid);
    return state == 0 || state == 'Z' || state == 'X';
}

/* Appends the kernel function in which the process sleeps: " (pipe_read)"; appends nothing if the kernel hides it. */
static void append_place(long pid, char *text, size_t size) {
    char path[64], place[48];
    snprintf(path, sizeof path, "/proc/%ld/wchan", pid);
    read_file(path, place, sizeof place);
    if (isalpha((unsigned char)place[0])) gs_append(text, size, " (%s)", place);
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

int *gs_processes_watch(int size, const long *pid) {
    int *watch = malloc((size_t)size * sizeof *watch);
    for (int i = 0; watch && i < size; i++) watch[i] = pid[i] > 0 ? pidfd_open((pid_t)pid[i], 0) : -1;
    return watch;
}

void gs_processes_unwatch(int size, int *watch) {
    for (int i = 0; watch && i < size; i++)
        if (watch[i] >= 0) close(watch[i]);
    free(watch);
}

bool gs_process_watched_has_ended(int descriptor) {
    struct pollfd p = {.fd = descriptor, .events = POLLIN};
    return descriptor >= 0 && poll(&p, 1, 0) > 0;
}
