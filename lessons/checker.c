/* The program that checks a lab:
 *
 *     checker TASK SOURCE COMMAND...     check the task; COMMAND starts a hand-in process, SOURCE is the student's text
 *
 * None of a student's code runs in this process. The check runs in a thread; each thread that calls a student's
 * function gets its own hand-in process, so that ranks share no memory. Only the first thread starts hand-ins, because
 * it lives as long as they do. Without a grader, the verdict is printed.
 */
#include "lab.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include "remote/wire.h"
#include "verdict.h"

extern char **environ;

enum {
    PATIENCE_MS = 15000, /* wait for a hand-in that has closed its connection, perhaps to print a report */
    MOST_STARTS = 10     /* attempts to start a hand-in that ends before its main */
};

typedef struct process {
    lab_wire wire; /* first: a pointer to the wire is also a pointer to its process */
    pid_t pid;
    bool taken; /* a thread uses it */
} process;

static char **command; /* the command that starts a hand-in */
static const lab_task *task;
static lab_verdict verdict; /* begins with the grader's word */
static int listener = -1;   /* the grader's socket, or -1 */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static process *processes[LAB_MOST_RANKS];
static int process_count, wanted; /* processes started, and processes requested */
static bool finished;

/* ---- the verdict ---- */

static _Noreturn void send_verdict(void) {
    if (listener >= 0) {
        ssize_t sent = send(listener, &verdict, sizeof verdict, MSG_NOSIGNAL);
        _exit(sent == sizeof verdict ? 0 : 1);
    }
    bool passed = verdict.passed && !verdict.leaks && !verdict.ended && !*verdict.blank;
    printf("%s: %s%s%s\n", task->number, passed ? "passed" : "failed", *verdict.message ? ": " : "",
           verdict.message);
    fflush(stdout);
    _exit(passed ? 0 : 1);
}

void lab_wire_blank(const char *number) {
    pthread_mutex_lock(&lock); /* never unlocked: the first thread to get here ends the process */
    verdict.passed = 0;
    snprintf(verdict.blank, sizeof verdict.blank, "%s", number);
    snprintf(verdict.message, sizeof verdict.message, "not written yet: task %s", verdict.blank);
    send_verdict();
}

/* ---- hand-in processes ---- */

_Noreturn void lab_wire_lost(lab_wire *w, const char *why) {
    process *p = (process *)w;
    int status = 0;
    pthread_mutex_lock(&lock); /* never unlocked */
    shutdown(w->fd, SHUT_RDWR);
    for (int waited = 0; waitpid(p->pid, &status, WNOHANG) == 0; waited += 5) {
        if (waited == PATIENCE_MS) kill(p->pid, SIGKILL);
        usleep(5000);
    }
    verdict.passed = 0;
    verdict.ended = 1;
    verdict.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    verdict.code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
    if (verdict.code > 128) verdict.signal = verdict.code - 128; /* how a sandbox reports a signal */
    snprintf(verdict.message, sizeof verdict.message, "%s", why);
    snprintf(verdict.called, sizeof verdict.called, "%s", w->called);
    send_verdict();
}

/* posix_spawn avoids what OpenBLAS would do before a fork. */
static process *spawn(void) {
    int ends[2];
    process *p = calloc(1, sizeof *p);
    posix_spawn_file_actions_t actions;
    if (!p || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        gs_bug("no memory for a process");
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], LAB_HAND_IN_FD);
    posix_spawn_file_actions_addclosefrom_np(&actions, LAB_HAND_IN_FD + 1);
    int error = posix_spawnp(&p->pid, command[0], &actions, NULL, command, environ);
    if (error != 0) gs_bug("cannot start %s: %s", command[0], strerror(error));
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    p->wire.fd = ends[0];
    return p;
}

/* A process that ends before its main has run none of the student's code: the machine or the sanitizer is to blame. */
static process *start(void) {
    for (int starts = 1;; starts++) {
        process *p = spawn();
        char tag = 0;
        while (recv(p->wire.fd, &tag, 1, 0) < 0 && errno == EINTR) {
        }
        if (tag == LAB_READY) return p;
        if (starts == MOST_STARTS) {
            verdict.starts = starts;
            lab_wire_lost(&p->wire, "it ended before its main");
        }
        close(p->wire.fd);
        kill(p->pid, SIGKILL);
        waitpid(p->pid, NULL, 0);
        free(p);
    }
}

static pthread_key_t key; /* each thread's own hand-in process */

static void give_back(void *taken) {
    pthread_mutex_lock(&lock);
    ((process *)taken)->taken = false;
    pthread_mutex_unlock(&lock);
}

static process *find_free(void) {
    for (int i = 0; i < process_count; i++)
        if (!processes[i]->taken) return processes[i];
    return NULL;
}

lab_wire *lab_wire_here(void) {
    process *mine = pthread_getspecific(key);
    if (mine) return &mine->wire;
    pthread_mutex_lock(&lock);
    while (!(mine = find_free())) {
        if (process_count == LAB_MOST_RANKS) gs_bug("more than %d threads call the hand-in", LAB_MOST_RANKS);
        if (wanted == process_count) wanted++;
        pthread_cond_broadcast(&changed);
        pthread_cond_wait(&changed, &lock);
    }
    mine->taken = true;
    pthread_mutex_unlock(&lock);
    pthread_setspecific(key, mine);
    return &mine->wire;
}

/* Runs LeakSanitizer in every hand-in process. */
static bool look_for_leaks(void) {
    bool found = false;
    for (int i = 0; i < process_count; i++) found = lab_wire_leaks(&processes[i]->wire) || found;
    return found;
}

/* ---- the check ---- */

static void *check(void *nothing) {
    const char *unit;
    verdict.passed = task->check() == GS_OK;
    verdict.measured = (double)lab_measured(&unit);
    snprintf(verdict.unit, sizeof verdict.unit, "%s", unit);
    if (!verdict.passed) {
        snprintf(verdict.message, sizeof verdict.message, "%s", gs_message());
        snprintf(verdict.hint, sizeof verdict.hint, "%s", lab_hint_of_failure());
    }
    pthread_mutex_lock(&lock);
    finished = true;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    return nothing;
}

static void serve_starts(void) {
    pthread_mutex_lock(&lock);
    while (!finished) {
        while (process_count < wanted) {
            pthread_mutex_unlock(&lock); /* only this thread adds to the list */
            process *p = start();
            pthread_mutex_lock(&lock);
            processes[process_count++] = p;
            pthread_cond_broadcast(&changed);
        }
        pthread_cond_wait(&changed, &lock);
    }
    pthread_mutex_unlock(&lock);
}

/* A kernel cannot call lab_blank, so a blank in lab.cl is recognised by its text, lab_blank(4.2). */
static void look_for_blank_in_kernels(const char *source) {
    char line[1024], text[40];
    size_t length = strlen(source);
    if (length < 3 || strcmp(source + length - 3, ".cl") != 0) return;
    snprintf(text, sizeof text, "lab_blank(%s)", task->number);
    FILE *f = fopen(source, "r");
    while (f && fgets(line, sizeof line, f))
        if (strstr(line, text)) lab_wire_blank(task->number);
    if (f) fclose(f);
}

static void find_listener(void) {
    const char *text = getenv(LAB_VERDICT_FD);
    int fd = text ? atoi(text) : -1;
    unsetenv(LAB_VERDICT_FD);
    if (fd < 0 || read(fd, verdict.word, sizeof verdict.word) != sizeof verdict.word) return;
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    listener = fd;
}

__attribute__((weak)) void lab_install(void) {}

int main(int argc, char **argv) {
    gs_cpu_choose_kernels(argv);
    for (task = lab_tasks; argc > 3 && task->number && strcmp(task->number, argv[1]) != 0;) task++;
    if (argc < 4 || !task->number) {
        fprintf(stderr, "usage: checker TASK SOURCE COMMAND...; the tasks are:");
        for (task = lab_tasks; task->number; task++) fprintf(stderr, " %s", task->number);
        fprintf(stderr, "\n");
        return 2;
    }
    command = argv + 3;
    find_listener();
    (void)lab_seed();
    unsetenv(LAB_SEED); /* the hand-in must not read it */
    look_for_blank_in_kernels(argv[2]);
    lab_install();
    pthread_t thread;
    if (pthread_key_create(&key, give_back) != 0 || pthread_create(&thread, NULL, check, NULL) != 0)
        gs_bug("no thread");
    serve_starts();
    pthread_join(thread, NULL);
    if (verdict.passed) verdict.leaks = look_for_leaks();
    send_verdict();
}
