/* `gradsum launch --hosts anna,berta:4,carl`: a launch on each of these machines. The first is this machine.
 *
 *     launch --hosts  ---+--- launch --node-rank 0           here
 *                        +--- ssh berta launch --node-rank 1
 *                        +--- ssh carl launch --node-rank 2
 *
 * Each launch reads the run's new secret from its standard input, because other users could read it on a command line.
 * The input stays open while this process lives; once the input ends, the launch ends too, even if ssh is gone. ssh
 * must log in with keys, without a prompt.
 */
#include "cli/cli.h"
#include "cli/launch/launch.h"
#include "comm/rendezvous/store.h"
#include "core/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { HOSTS = 64, NAME = 128, COMMAND = 8192, USUAL_PORT = 29400 };
static const double GRACE = 8 /* seconds for the others to notice a failure, and between two signals */;

typedef struct host {
    char name[NAME];
    int processes;
    pid_t pid; /* the process of its launch, or of ssh; 0: not running */
    int input; /* the launch's standard input */
    int status;
} host;

typedef struct fleet {
    const gs_launch *launch;
    host host[HOSTS];
    int count, running, failed; /* failed: the first host to fail; -1: none */
    char ranks[HOSTS * 4], meet[NAME + 32], secret[2 * GS_SECRET + 2];
} fleet;

/* ---- choosing the hosts ---- */

/* True if the name is a safe word for ssh and for a shell. */
static bool is_name(const char *name) {
    static const char good[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-@%:";
    return *name && *name != '-' && strspn(name, good) == strlen(name);
}

/* Reads "berta:4" or "[fd00::1]:4": an address with the number of processes in place of a port. */
static gs_status take_host(fleet *f, const char *word, size_t length) {
    char text[NAME + 32];
    host *h = &f->host[f->count];
    gs_endpoint read;
    if (f->count == HOSTS) return gs_fail(GS_E_USAGE, "--hosts: more than %d machines", HOSTS);
    if (length >= NAME) return gs_fail(GS_E_USAGE, "--hosts: '%.40s...' is too long for a name", word);
    snprintf(text, sizeof text, "tcp://%.*s", (int)length, word);
    const bool numbered = gs_endpoint_read(text, &read) == GS_OK;
    if (!numbered) gs_append(text, sizeof text, ":%d", f->launch->size);
    if ((!numbered && gs_endpoint_read(text, &read) != GS_OK) || !is_name(read.host) ||
        memchr(word, '/', length) || (numbered && read.port < 1) || read.port > GS_LAUNCH_MOST)
        return gs_fail(GS_E_USAGE, "--hosts: '%.*s' is not HOST or HOST:PROCESSES (1 to %d)", (int)length,
                       word, GS_LAUNCH_MOST);
    if (read.port < 1)
        return gs_fail(GS_E_USAGE, "--hosts: no number of processes on %s; wanted %s:N, or -n N for all",
                       read.host, read.host);
    *h = (host){.processes = read.port, .input = -1};
    snprintf(h->name, sizeof h->name, "%.*s", NAME - 1, read.host);
    f->count++;
    return GS_OK;
}

static gs_status read_hosts(fleet *f, const char *list) {
    for (const char *at = list;; at++) {
        const size_t length = strcspn(at, ",");
        GS_TRY(take_host(f, at, length));
        at += length;
        if (!*at) break;
    }
    if (f->count < 2) return gs_fail(GS_E_USAGE, "--hosts names one machine; wanted two or more: anna,berta");
    for (int i = 0; i < f->count; i++)
        gs_append(f->ranks, sizeof f->ranks, "%s%d", i ? "," : "", f->host[i].processes);
    const char *first = strchr(f->host[0].name, '@') ? strchr(f->host[0].name, '@') + 1 : f->host[0].name;
    if (f->launch->meet)
        snprintf(f->meet, sizeof f->meet, "%s", f->launch->meet);
    else
        snprintf(f->meet, sizeof f->meet, strchr(first, ':') ? "tcp://[%s]:%d" : "tcp://%s:%d", first,
                 USUAL_PORT);
    return GS_OK;
}

/* ---- each host's command ---- */

/* Append a word to a shell command, in single quotes if it needs them. */
static void append_word(char *text, size_t size, const char *word) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/:=,+@%";
    gs_append(text, size, *text ? " " : "");
    if (*word && strspn(word, plain) == strlen(word)) {
        gs_append(text, size, "%s", word);
        return;
    }
    gs_append(text, size, "'");
    for (; *word; word++) gs_append(text, size, *word == '\'' ? "'\\''" : "%c", *word);
    gs_append(text, size, "'");
}

/* Builds "cd DIR && PROGRAM launch --nodes 3 ..."; GS_E_USAGE: it is too long. */
static gs_status command_of(const fleet *f, int node, char text[COMMAND]) {
    const gs_launch *l = f->launch;
    static const char *const same[] = {"GRADSUM_CHECK", "GRADSUM_TIMEOUT"}; /* the same on all machines */
    char folder[2048], program[2048] = "", setting[256];
    const ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    program[n > 0 ? n : 0] = '\0';
    if (!getcwd(folder, sizeof folder))
        return gs_fail(GS_E_FILE, "cannot find this folder: %s", strerror(errno));
    snprintf(text, COMMAND, "cd");
    append_word(text, COMMAND, folder);
    gs_append(text, COMMAND, " && exec env");
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        const char *value = getenv(same[i]);
        snprintf(setting, sizeof setting, "%s=%s", same[i], value ? value : "");
        if (value) append_word(text, COMMAND, setting);
    }
    append_word(text, COMMAND, l->program && node > 0 ? l->program : program);
    gs_append(text, COMMAND, " launch --nodes %d --node-rank %d --ranks %s --meet", f->count, node, f->ranks);
    append_word(text, COMMAND, f->meet);
    if (l->timeout > 0) gs_append(text, COMMAND, " --timeout %.9g", l->timeout);
    gs_append(text, COMMAND, " --transport");
    append_word(text, COMMAND, l->transport);
    if (l->interface) gs_append(text, COMMAND, " --interface");
    if (l->interface) append_word(text, COMMAND, l->interface);
    gs_append(text, COMMAND, " --bind %s --secret-file - --", l->bind ? "cores" : "none");
    for (char **word = l->command; *word; word++) append_word(text, COMMAND, *word);
    return strlen(text) < COMMAND - 1 ? GS_OK : gs_fail(GS_E_USAGE, "the command is too long for --hosts");
}

/* ---- starting ---- */

/* Runs in the new process. */
static void become(const fleet *f, int node, const char *command, int input) {
    dup2(input, STDIN_FILENO);
    if (node == 0)
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
    else
        execlp("ssh", "ssh", "-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", f->host[node].name,
               command, (char *)NULL);
    gs_tell("launch", "cannot start %s: %s", node == 0 ? "sh" : "ssh (Debian: openssh-client)",
            strerror(errno));
    _exit(127);
}

static gs_status start(fleet *f, int node, const sigset_t *before) {
    char command[COMMAND];
    host *h = &f->host[node];
    int ends[2];
    GS_TRY(command_of(f, node, command));
    if (node > 0) fprintf(stderr, "gradsum launch: ssh %s %s\n", h->name, command);
    if (pipe2(ends, O_CLOEXEC) != 0) return gs_fail(GS_E_FILE, "cannot make a pipe: %s", strerror(errno));
    const ssize_t length = (ssize_t)strlen(f->secret);
    const bool told = write(ends[1], f->secret, (size_t)length) == length; /* the secret fits into the pipe */
    fflush(stderr);
    const pid_t launcher = getpid();
    h->pid = told ? fork() : -1;
    if (h->pid == 0) {
        gs_launch_begin_child(launcher, before);
        become(f, node, command, ends[0]);
    }
    close(ends[0]);
    h->input = ends[1];
    if (h->pid < 0) {
        h->pid = 0;
        return gs_fail(GS_E_MEMORY, "cannot start a process for %s: %s", h->name, strerror(errno));
    }
    f->running++;
    return GS_OK;
}

/* ---- watching ---- */

static void send_all(fleet *f, int number) {
    for (int i = 0; i < f->count; i++) {
        if (f->host[i].pid <= 0) continue;
        if (i == 0 || number == SIGKILL) kill(f->host[i].pid, number);
        if (i > 0 && f->host[i].input >= 0) close(f->host[i].input), f->host[i].input = -1;
    }
}

/* Tell all launches through standard input, because ssh forwards no signals. */
static void tell_all(const fleet *f, char what) {
    for (int i = 0; i < f->count; i++)
        if (f->host[i].input >= 0 && write(f->host[i].input, &what, 1) < 0)
            gs_tell("launch", "%s cannot be reached: %s", f->host[i].name, strerror(errno));
}

static void reap(fleet *f) {
    int status;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;)
        for (int i = 0; i < f->count; i++) {
            if (f->host[i].pid != pid) continue;
            f->host[i].pid = 0;
            f->host[i].status = status;
            f->running--;
            if (status != 0 && f->failed < 0) f->failed = i;
        }
}

/* Returns the signal that stopped the launch, or 0. */
static int watch(fleet *f, const sigset_t *waited) {
    int stopped_by = 0;
    double due = 0; /* when the launches still running get the next signal; 0: never */
    int next = SIGTERM;
    while (f->running > 0) {
        const struct timespec wait = {.tv_nsec = 200000000};
        const int number = sigtimedwait(waited, NULL, &wait);
        reap(f);
        if (number == SIGTSTP) {
            tell_all(f, GS_LAUNCH_SUSPEND);
            gs_launch_suspend();
            tell_all(f, GS_LAUNCH_RESUME);
        } else if (number == SIGUSR1) {
            if (f->host[0].pid > 0) kill(f->host[0].pid, number); /* one rank is enough for a checkpoint */
        } else if (number > 0 && number != SIGCHLD) {
            if (!stopped_by) stopped_by = number;
            send_all(f, number == SIGINT ? SIGINT : SIGTERM);
            if (due <= 0) due = gs_awake_seconds() + 2 * GRACE;
        }
        if (f->failed >= 0 && due <= 0) due = gs_awake_seconds() + GRACE;
        if (due > 0 && gs_awake_seconds() >= due) {
            send_all(f, next);
            next = SIGKILL;
            due = gs_awake_seconds() + GRACE;
        }
    }
    return stopped_by;
}

/* ---- the end ---- */

static void say_failure(const fleet *f) {
    const host *h = &f->host[f->failed];
    const int status = WIFEXITED(h->status) ? WEXITSTATUS(h->status) : 128 + WTERMSIG(h->status);
    char why[NAME + 100] = "";
    if (f->failed > 0 && status == 255)
        snprintf(why, sizeof why, ": ssh could not reach it, or needs a key (ssh -o BatchMode=yes %s true)",
                 h->name);
    if (f->failed > 0 && (status == 127 || status == 126))
        snprintf(why, sizeof why, ": gradsum could not be started there; --program says where it is");
    gs_tell("launch", "node rank %d (%s) failed with exit status %d%s", f->failed, h->name, status, why);
}

static int outcome(const fleet *f, int stopped_by) {
    if (stopped_by && f->failed >= 0) return 128 + stopped_by;
    if (f->failed < 0) return GS_EXIT_OK;
    say_failure(f);
    const host *first = &f->host[0];
    const bool usage = WIFEXITED(first->status) && WEXITSTATUS(first->status) == GS_EXIT_USAGE;
    return usage ? GS_EXIT_USAGE : GS_EXIT_FAILED;
}

static gs_status make_secret(fleet *f) {
    unsigned char bytes[GS_SECRET];
    GS_TRY(gs_secret_make(bytes, GS_SECRET));
    for (int i = 0; i < GS_SECRET; i++) gs_append(f->secret, sizeof f->secret, "%02x", bytes[i]);
    gs_append(f->secret, sizeof f->secret, "\n");
    return GS_OK;
}

int gs_launch_hosts(const gs_launch *launch) {
    fleet f = {.launch = launch, .failed = -1};
    sigset_t waited, before;
    gs_status status = read_hosts(&f, launch->hosts);
    if (status == GS_OK) status = make_secret(&f);
    if (status != GS_OK) return gs_exit_status("launch", status);
    gs_launch_take_signals(&waited, &before);
    signal(SIGPIPE, SIG_IGN);
    for (int i = 0; i < f.count && status == GS_OK; i++) status = start(&f, i, &before);
    if (status != GS_OK) {
        gs_tell("launch", "%s", gs_message());
        f.failed = 0;
        send_all(&f, SIGTERM);
    }
    const int stopped_by = watch(&f, &waited);
    for (int i = 0; i < f.count; i++)
        if (f.host[i].input >= 0) close(f.host[i].input);
    return status == GS_OK ? outcome(&f, stopped_by) : GS_EXIT_FAILED;
}
