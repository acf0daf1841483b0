/* Starting several processes, watching over them, and ending them together.
 *
 * They are started by fork and exec, from a process that has used neither OpenBLAS nor OpenCL: both keep
 * threads, which a fork would not take along.
 */
#include "cli/launch.h"
#include "cli/cli.h"
#include "core/clock.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* When one process has failed, the others normally find out by themselves, and each says what it has seen. */
static const double GRACE = 2;       /* seconds until they are told to end, and then until they are killed */
static const double GRACE_STOP = 10; /* the same after Ctrl-C: they end after their step, and save */
static const double AGAIN = 0.5; /* a second Ctrl-C comes from a person, not from the same one sent twice */

typedef struct child {
    pid_t pid;  /* 0: not running */
    int status; /* as waitpid says, once it has ended */
} child;

typedef struct launch_state {
    const gs_launch *launch;
    child child[GS_LAUNCH_MOST];
    int running;
    int failed;        /* the rank that failed first, or -1 */
    int failed_others; /* how many were running then, */
    bool told;         /* and whether they had to be told to end */
    int stopped_by;    /* the signal that asked us to stop, or 0 */
    double stopped_at;
    int next;       /* the next signal for those that still run: 0 none, SIGTERM or SIGKILL, */
    double next_at; /* and when it is due */
    sigset_t waited, before;
} launch_state;

/* ---- starting ---- */

/* In the new process: die with the launcher, ignore the terminal, become gradsum again. */
static void become_rank(const launch_state *s, char **argv, pid_t launcher) {
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != launcher) _exit(GS_EXIT_FAILED); /* it died before that */
    /* Ctrl-C goes to the launcher alone, which passes it on: so each process gets it once, however it was
     * sent. In a group of their own they are in the background, where some terminals stop who writes. */
    setpgid(0, 0);
    signal(SIGTTOU, SIG_IGN);
    sigprocmask(SIG_SETMASK, &s->before, NULL);
    execv("/proc/self/exe", argv);
    static const char message[] = "gradsum launch: cannot start this program again: /proc/self/exe\n";
    if (write(STDERR_FILENO, message, sizeof message - 1) < 0) _exit(GS_EXIT_FAILED);
    _exit(GS_EXIT_FAILED);
}

static gs_status start(launch_state *s, const gs_launch_place *place) {
    int words = 0;
    while (s->launch->command[words]) words++;
    char **argv = calloc((size_t)words + 2, sizeof *argv);
    if (!argv) return gs_fail(GS_E_MEMORY, "no memory for the command");
    argv[0] = "gradsum";
    memcpy(argv + 1, s->launch->command, (size_t)words * sizeof *argv);
    gs_status status = GS_OK;
    pid_t launcher = getpid();
    for (int r = 0; status == GS_OK && r < s->launch->size; r++) {
        status = gs_launch_place_for(place, s->launch, r);
        if (status != GS_OK) break;
        pid_t pid = fork();
        if (pid == 0) become_rank(s, argv, launcher);
        if (pid < 0) {
            status = gs_fail(GS_E_MEMORY, "cannot start process %d of %d: %s", r, s->launch->size,
                             strerror(errno));
        } else {
            s->child[r].pid = pid;
            s->running++;
        }
    }
    free(argv);
    return status;
}

/* ---- watching ---- */

static void send_all(const launch_state *s, int number) {
    for (int r = 0; r < s->launch->size; r++)
        if (s->child[r].pid > 0) kill(s->child[r].pid, number);
}

static void plan(launch_state *s, int number, double seconds) {
    s->next = number;
    s->next_at = gs_seconds() + seconds;
}

/* A rank has ended with a failure. The first is the one to blame; but a rank that was killed is the cause,
 * where one that only exits may have noticed that, and been seen first. */
static void note_failure(launch_state *s, int rank) {
    bool worse =
        s->failed >= 0 && WIFEXITED(s->child[s->failed].status) && WIFSIGNALED(s->child[rank].status);
    if (s->failed < 0) s->failed_others = s->running;
    if (s->failed < 0 || (worse && s->next != SIGKILL)) s->failed = rank;
    if (s->next == 0) plan(s, SIGTERM, GRACE);
}

static void reap(launch_state *s) {
    int status;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
        for (int r = 0; r < s->launch->size; r++) {
            if (s->child[r].pid != pid) continue;
            s->child[r] = (child){.status = status};
            s->running--;
            if (status != 0) note_failure(s, r);
        }
    }
}

static void stop(launch_state *s, int number) {
    double now = gs_seconds();
    if (number == SIGQUIT || (s->stopped_by && now - s->stopped_at > AGAIN)) {
        send_all(s, SIGKILL);
    } else if (!s->stopped_by) {
        send_all(s, number);
        plan(s, SIGTERM, GRACE_STOP);
    }
    if (!s->stopped_by) {
        s->stopped_by = number;
        s->stopped_at = now;
    }
}

static void watch(launch_state *s) {
    while (s->running > 0) {
        struct timespec most = {.tv_sec = 1};
        if (s->next) {
            double left = s->next_at - gs_seconds();
            if (left <= 0) {
                send_all(s, s->next);
                s->told = true;
                plan(s, SIGKILL, GRACE);
                continue;
            }
            if (left < 1) most = (struct timespec){.tv_nsec = (long)(left * 1e9)};
        }
        int number = sigtimedwait(&s->waited, NULL, &most);
        if (number == SIGCHLD || number < 0) reap(s);
        if (number > 0 && number != SIGCHLD) stop(s, number);
    }
}

/* From here on signals wait until watch() takes them. One that is ignored (nohup) stays ignored. */
static void take_signals(launch_state *s) {
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    sigemptyset(&s->waited);
    sigaddset(&s->waited, SIGCHLD);
    signal(SIGCHLD, SIG_DFL);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        struct sigaction now;
        if (sigaction(numbers[i], NULL, &now) == 0 && now.sa_handler != SIG_IGN)
            sigaddset(&s->waited, numbers[i]);
    }
    sigprocmask(SIG_BLOCK, &s->waited, &s->before);
}

/* ---- the end ---- */

static void say_failure(const launch_state *s) {
    int status = s->child[s->failed].status;
    fprintf(stderr, "gradsum launch: rank %d ", s->failed);
    if (WIFSIGNALED(status))
        fprintf(stderr, "was killed by signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
    else
        fprintf(stderr, "failed with exit status %d", WEXITSTATUS(status));
    if (s->failed_others > 0)
        fprintf(stderr, s->told ? "; ended the other %d" : "; the other %d ended too", s->failed_others);
    fputc('\n', stderr);
}

static int outcome(const launch_state *s) {
    int usage = 0;
    for (int r = 0; r < s->launch->size; r++) {
        int status = s->child[r].status;
        usage += WIFEXITED(status) && WEXITSTATUS(status) == GS_EXIT_USAGE;
    }
    if (s->failed < 0) return GS_EXIT_OK;
    if (s->stopped_by) {
        fprintf(stderr, "gradsum launch: stopped by signal %d (%s)\n", s->stopped_by,
                strsignal(s->stopped_by));
        return GS_EXIT_FAILED;
    }
    if (usage < s->launch->size) return say_failure(s), GS_EXIT_FAILED;
    if (usage > 1) fprintf(stderr, "gradsum launch: all %d processes say that\n", usage);
    return GS_EXIT_USAGE;
}

int gs_launch_run(const gs_launch *launch) {
    launch_state s = {.launch = launch, .failed = -1};
    gs_launch_place place;
    gs_status status = gs_launch_place_create(&place);
    if (status == GS_OK) {
        take_signals(&s);
        status = start(&s, &place);
        if (status != GS_OK) send_all(&s, SIGKILL);
        watch(&s);
    }
    gs_launch_place_remove(&place);
    if (status == GS_OK) return outcome(&s);
    fprintf(stderr, "gradsum launch: %s\n", gs_message());
    return GS_EXIT_FAILED;
}
