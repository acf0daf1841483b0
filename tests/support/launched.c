#include "tests/support/launched.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <dirent.h>
#include <sys/wait.h>
#include <unistd.h>

bool gs_test_variable_of(pid_t pid, const char *name, char *value, size_t size) {
    static char text[1 << 17];
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/environ", (int)pid);
    FILE *f = fopen(path, "r");
    if (!f) return false;
    size_t length = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    text[length] = 0;
    for (const char *at = text; at < text + length; at += strlen(at) + 1) {
        if (strncmp(at, name, strlen(name)) != 0 || at[strlen(name)] != '=') continue;
        snprintf(value, size, "%s", at + strlen(name) + 1);
        return true;
    }
    return false;
}

/* The process whose folder in /proc has this name, if its parent is `parent`; otherwise 0. */
static pid_t child_of(pid_t parent, const char *name) {
    char path[300];
    int pid, its;
    snprintf(path, sizeof path, "/proc/%s/stat", name);
    FILE *f = fopen(path, "r");
    if (!f) return 0;
    const bool is_child = fscanf(f, "%d (%*[^)]) %*c %d", &pid, &its) == 2 && its == parent;
    fclose(f);
    return is_child ? pid : 0;
}

pid_t gs_test_rank_of(pid_t launcher, int rank) {
    pid_t found = 0;
    DIR *proc = opendir("/proc");
    assert_non_null(proc);
    for (const struct dirent *e; !found && (e = readdir(proc));) {
        char number[16];
        const pid_t pid = child_of(launcher, e->d_name);
        if (pid && gs_test_variable_of(pid, "GRADSUM_RANK", number, sizeof number) && atoi(number) == rank)
            found = pid;
    }
    closedir(proc);
    return found;
}

char gs_test_state_of(pid_t pid) {
    char path[64], state = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *f = fopen(path, "r");
    if (!f) return 0;
    const bool read = fscanf(f, "%*d (%*[^)]) %c", &state) == 1;
    fclose(f);
    return read ? state : 0;
}

bool gs_test_lives(pid_t pid) {
    const char state = gs_test_state_of(pid);
    return state && state != 'Z' && state != 'X';
}

bool gs_test_signal_waits(pid_t pid, int signal) {
    char path[64], line[256];
    unsigned long long waiting = 0;
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f) && sscanf(line, "ShdPnd: %llx", &waiting) != 1) continue;
    fclose(f);
    return waiting >> (signal - 1) & 1;
}

int gs_test_launcher_end(pid_t launcher) {
    int status = 0;
    pid_t ended = 0;
    for (int i = 0; i < 30000 && (ended = waitpid(launcher, &status, WNOHANG)) == 0; i++) usleep(10000);
    if (ended == 0) kill(launcher, SIGKILL);
    assert_int_equal(ended, launcher);
    return status;
}

/* Claims the port for the lifetime of this process: when a process ends, the name of its socket becomes free again. */
static bool keep_for_us(int port) {
    struct sockaddr_un name = {.sun_family = AF_UNIX}; /* an abstract name: it starts with a zero byte */
    snprintf(name.sun_path + 1, sizeof name.sun_path - 1, "gradsum-test port %d", port);
    const int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(s >= 0);
    const bool kept = bind(s, (const struct sockaddr *)&name, sizeof name) == 0;
    if (!kept) close(s);
    return kept;
}

static bool is_free(int port) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(s >= 0);
    const bool free = bind(s, (const struct sockaddr *)&at, sizeof at) == 0;
    close(s);
    return free;
}

int gs_test_free_port(void) {
    enum { FIRST = 12000, COUNT = 4000 };
    static int next = -1;
    if (next < 0) next = (int)(getpid() % (COUNT / 40)) * 40; /* other processes start elsewhere */
    for (int i = 0; i < COUNT; i++) {
        const int port = FIRST + next++ % COUNT;
        if (keep_for_us(port) && is_free(port)) return port;
    }
    fail_msg("no port from %d to %d is free", FIRST, FIRST + COUNT - 1);
    return 0;
}

void gs_test_hash_of(const char *output, char hash[65]) {
    const char *at = strstr(output, "sha256 ");
    if (!at || strlen(at) < 7 + 64) fail_msg("no hash in: %s", output);
    memcpy(hash, at + 7, 64);
    hash[64] = '\0';
}
