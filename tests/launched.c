#include "tests/launched.h"

#include <string.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <dirent.h>
#include <signal.h>
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

/* The process whose folder in /proc this is, if `parent` is its parent; else 0. */
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

bool gs_test_lives(pid_t pid) {
    char path[64], mark = 'Z';
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *f = fopen(path, "r");
    if (!f) return false;
    bool read = fscanf(f, "%*d (%*[^)]) %c", &mark) == 1;
    fclose(f);
    return read && mark != 'Z' && mark != 'X';
}

int gs_test_launcher_end(pid_t launcher) {
    int status = 0;
    pid_t ended = 0;
    for (int i = 0; i < 6000 && (ended = waitpid(launcher, &status, WNOHANG)) == 0; i++) usleep(10000);
    if (ended == 0) kill(launcher, SIGKILL);
    assert_int_equal(ended, launcher);
    return status;
}

int gs_test_free_port(void) {
    struct sockaddr_in at = {.sin_family = AF_INET};
    socklen_t length = sizeof at;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int s = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(s, (const struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(getsockname(s, (struct sockaddr *)&at, &length), 0);
    close(s);
    return ntohs(at.sin_port);
}

void gs_test_hash_of(const char *output, char hash[65]) {
    const char *at = strstr(output, "sha256 ");
    if (!at || strlen(at) < 7 + 64) fail_msg("no hash in: %s", output);
    memcpy(hash, at + 7, 64);
    hash[64] = '\0';
}
