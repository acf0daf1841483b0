/* Why ranks failed: each leaves a line with its code and its message in memory that all processes of a launch share, so
 * that the launcher's last line can be the diagnosis. A memfd: nothing can be left behind. */
#include "cli/launch/launch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define VARIABLE "GRADSUM_LAUNCH_WHY"
#define NAME "gradsum-why"

/* What is no failure: lines with GS_OK. */
#define STEP "0 has made a step\n"
#define MET "0 has met\n"

enum { LINE = 1200, ALL = 1 << 18 };

static char text[ALL]; /* all lines */

int gs_launch_why_create(void) {
    char number[16];
    int file = memfd_create(NAME, 0);
    snprintf(number, sizeof number, "%d", file);
    if (file < 0 || setenv(VARIABLE, number, 1) != 0) unsetenv(VARIABLE);
    return file;
}

int gs_launch_inherited(const char *variable, const char *name) {
    const char *number = getenv(variable);
    char path[64], target[64] = "", wanted[64];
    if (!number) return -1;
    snprintf(path, sizeof path, "/proc/self/fd/%d", atoi(number));
    snprintf(wanted, sizeof wanted, "/memfd:%s", name);
    if (readlink(path, target, sizeof target - 1) < 0) return -1;
    return strncmp(target, wanted, strlen(wanted)) == 0 ? atoi(number) : -1;
}

static int inherited(void) {
    return gs_launch_inherited(VARIABLE, NAME);
}

/* Of the lines with this code and message ("1 why\n"), is that of `rank` the first? All lines are written, each at
 * once, before they are looked for. */
static bool is_first(int file, int rank, const char *what) {
    ssize_t length = pread(file, text, sizeof text - 1, 0);
    text[length > 0 ? length : 0] = '\0';
    for (char *line = text, *end; (end = strchr(line, '\n')); line = end + 1) {
        const char *blank = strchr(line, ' ');
        if (blank && blank < end && strncmp(blank + 1, what, strlen(what)) == 0) return atoi(line) == rank;
    }
    return true;
}

bool gs_launch_why_tell(gs_status code, const char *message, bool *said) {
    const char *rank = getenv("GRADSUM_RANK");
    char line[LINE];
    *said = false;
    int file = inherited();
    if (file < 0 || !rank) return false;
    int length = snprintf(line, sizeof line, "%d %d %s", atoi(rank), (int)code, message);
    if (length >= LINE - 2) length = LINE - 3;
    for (int i = 0; i < length; i++)
        if (line[i] == '\n') line[i] = ' ';
    line[length++] = '\n';
    line[length] = '\0';
    if (write(file, line, (size_t)length) != length) return false; /* the message is on standard error too */
    *said = !is_first(file, atoi(rank), strchr(line, ' ') + 1);
    return true;
}

void gs_launch_why_step(void) {
    static const char line[] = "0 " STEP;
    static bool told;
    if (told) return;
    told = true;
    const int file = inherited();
    if (file >= 0 && write(file, line, sizeof line - 1) < 0)
        return; /* then the first step is told by no one */
}

void gs_launch_why_met(void) {
    char line[40];
    const char *rank = getenv("GRADSUM_RANK");
    const int file = inherited();
    if (file < 0 || !rank) return;
    const int length = snprintf(line, sizeof line, "%d " MET, atoi(rank));
    if (write(file, line, (size_t)length) < 0) return; /* then others may be told of a failure in vain */
}

/* Is there a line of this rank (-1: of any) that goes on so? what NULL: one of a failure. */
static bool has_line(int file, int rank, const char *what) {
    const ssize_t length = file < 0 ? -1 : pread(file, text, sizeof text - 1, 0);
    text[length > 0 ? length : 0] = '\0';
    for (const char *line = text, *end; (end = strchr(line, '\n')); line = end + 1) {
        const char *blank = strchr(line, ' ');
        if (!blank || blank > end || (rank >= 0 && atoi(line) != rank)) continue;
        if (what ? strncmp(blank + 1, what, strlen(what)) == 0 : atoi(blank + 1) != GS_OK) return true;
    }
    return false;
}

bool gs_launch_why_stepped(int file) {
    return has_line(file, -1, STEP);
}

bool gs_launch_why_has_met(int file) {
    return has_line(file, -1, MET);
}

bool gs_launch_why_told(int file, int rank) {
    return has_line(file, rank, NULL);
}

void gs_launch_why_clear(int file) {
    if (file < 0 || ftruncate(file, 0) != 0) return;
    lseek(file, 0, SEEK_SET); /* the processes write where the last one ended */
}

bool gs_launch_why_first(int file, gs_launch_why *out) {
    bool found = false;
    ssize_t length = file < 0 ? -1 : pread(file, text, sizeof text - 1, 0);
    text[length > 0 ? length : 0] = '\0';
    for (char *line = text, *end; (end = strchr(line, '\n')); line = end + 1) {
        int rank, code, used = 0;
        *end = '\0';
        if (sscanf(line, "%d %d %n", &rank, &code, &used) != 2 || used == 0) continue;
        if (code == GS_OK) continue; /* that a step was made */
        if (found && !(out->code == GS_E_PEER && code != GS_E_PEER)) continue;
        *out = (gs_launch_why){.rank = rank, .code = (gs_status)code};
        snprintf(out->message, sizeof out->message, "%s", line + used);
        found = true;
    }
    return found;
}
