/* Starting several processes, watching over them, and ending them together.
 *
 * They are started by fork and exec, from a process that has used neither OpenBLAS nor OpenCL: both keep
 * threads, which a fork would not take along.
 */
#include "cli/launch/launch.h"
#include "cli/cli.h"
#include "core/clock.h"
#include "core/cores.h"
#include "comm/process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
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
    pid_t pid;            /* 0: not running */
    int status;           /* as waitpid says, once it has ended */
    double stopped_since; /* seen stopped since then, while others had ended; 0: it is not */
    char hangs
        [80]; /* what it was doing when others failed for lack of it: "process 4711 is stopped"; "": it does not hang */
} child;

typedef struct launch_state {
    const gs_launch *launch;
    const gs_launch_place *place;
    double timeout; /* seconds that a rank may be stopped once others have ended */
    child child[GS_LAUNCH_MOST];
    int running;
    int why;           /* what they say of their failures (launch/launch_why.c) */
    int failed;        /* the rank that failed first, or -1 */
    int hung;          /* the rank that failed by being stopped too long after others ended; or -1 */
    int failed_others; /* how many were running then, */
    bool told;         /* and whether they had to be told to end */
    int stopped_by;    /* the signal that asked us to stop, or 0 */
    double stopped_at;
    int next;       /* the next signal for those that still run: 0 none, SIGTERM or SIGKILL, */
    double next_at; /* and when it is due */
    sigset_t waited, before;
} launch_state;

/* The number of the first of these processes in the world. */
static int first_of(const launch_state *s) {
    return s->launch->first;
}

/* ---- starting ---- */

/* In the new process: die with the launcher, ignore the terminal, become gradsum again. */
static void become_rank(const launch_state *s, char **argv, pid_t launcher, const cpu_set_t *share) {
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != launcher) _exit(GS_EXIT_FAILED); /* it died before that */
    /* Ctrl-C goes to the launcher alone, which passes it on. So each process gets it once, however it was sent. In a
     * group of their own the processes are in the background, where some terminals stop those that write. */
    setpgid(0, 0);
    signal(SIGTTOU, SIG_IGN);
    sigprocmask(SIG_SETMASK, &s->before, NULL);
    const int nothing = s->launch->starter ? open("/dev/null", O_RDONLY | O_CLOEXEC) : -1;
    if (nothing >= 0) dup2(nothing, STDIN_FILENO); /* standard input is the launcher's */
    if (!share || !gs_cores_bind(share) || setenv("GRADSUM_OWN_CPUS", "1", 1) != 0)
        unsetenv("GRADSUM_OWN_CPUS");
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
        cpu_set_t share;
        bool bind = s->launch->bind && s->launch->size > 1 && gs_cores_share(r, s->launch->size, &share);
        pid_t pid = fork();
        if (pid == 0) become_rank(s, argv, launcher, bind ? &share : NULL);
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

static void note_hanging(child *c, bool only_stopped) {
    char does[60];
    if (c->pid <= 0 || c->hangs[0] || (only_stopped && !gs_process_is_stopped(c->pid))) return;
    gs_process_does(c->pid, does, sizeof does);
    snprintf(c->hangs, sizeof c->hangs, "process %d %s", (int)c->pid, does);
}

static void note_all_hanging(launch_state *s, bool only_stopped) {
    for (int r = 0; r < s->launch->size && !s->stopped_by; r++) note_hanging(&s->child[r], only_stopped);
}

/* A rank has failed. The first one to fail is to blame. But a rank that was killed is the cause even if another was
 * seen first: one that merely exits may have done so because it noticed the loss. */
static void note_failure(launch_state *s, int rank) {
    bool worse =
        s->failed >= 0 && WIFEXITED(s->child[s->failed].status) && WIFSIGNALED(s->child[rank].status);
    if (s->failed < 0) s->failed_others = s->running;
    if (s->failed < 0) note_all_hanging(s, true);
    if (s->failed < 0 || (worse && s->next != SIGKILL)) s->failed = rank;
    if (s->next == 0) plan(s, SIGTERM, GRACE);
}

/* SIGTERM has no effect on a stopped process. If only stopped ones are left, nobody needs time to end. */
static void look_for_stopped(launch_state *s) {
    for (int r = 0; r < s->launch->size; r++)
        if (s->child[r].pid > 0 && !gs_process_is_stopped(s->child[r].pid)) return;
    if (s->running == 0 || s->failed < 0 || s->stopped_by || s->next != SIGTERM) return;
    s->told = true;
    plan(s, SIGKILL, 0);
}

/* Ranks that have ended wait for nobody. So only the launcher notices a rank that is stopped while it saves or ends. */
static void look_for_hanging(launch_state *s) {
    const double now = gs_seconds();
    if (s->failed >= 0 || s->stopped_by || s->running == s->launch->size) return;
    for (int r = 0; r < s->launch->size && s->failed < 0; r++) {
        child *c = &s->child[r];
        if (c->pid <= 0 || !gs_process_is_stopped(c->pid)) {
            c->stopped_since = 0;
        } else if (c->stopped_since <= 0) {
            c->stopped_since = now;
        } else if (now - c->stopped_since >= s->timeout) {
            note_hanging(c, true);
            s->failed = s->hung = r;
            s->failed_others = s->running - 1;
            plan(s, SIGTERM, 0);
        }
    }
}

/* Seconds until look_for_hanging may find something, 1 at most. */
static double until_hanging(const launch_state *s) {
    double left = 1;
    for (int r = 0; r < s->launch->size; r++) {
        double since = s->child[r].stopped_since, own = since + s->timeout - gs_seconds();
        if (s->child[r].pid > 0 && since > 0 && own < left) left = own;
    }
    return left > 0.001 ? left : 0.001;
}

static void reap(launch_state *s) {
    int status;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
        for (int r = 0; r < s->launch->size; r++) {
            if (s->child[r].pid != pid) continue;
            s->child[r].pid = 0;
            s->child[r].status = status;
            s->running--;
            if (status != 0) note_failure(s, r);
        }
    }
    look_for_hanging(s);
    look_for_stopped(s);
}

static void stop(launch_state *s, int number) {
    double now = gs_seconds();
    if (number == SIGUSR1) { /* they make a checkpoint, and go on */
        send_all(s, number);
        return;
    }
    if (number == SIGQUIT || (s->stopped_by && now - s->stopped_at > AGAIN)) {
        send_all(s, SIGKILL);
    } else if (!s->stopped_by) {
        send_all(s, number);
        const char *folder = s->place->folder;
        bool meeting = *folder && access(folder, F_OK) == 0; /* there is nothing to save yet */
        plan(s, SIGTERM, meeting ? GRACE : GRACE_STOP);
    }
    if (!s->stopped_by) {
        s->stopped_by = number;
        s->stopped_at = now;
    }
}

/* Its end is the end of standard input, which nobody writes to. */
static bool starter_has_gone(const launch_state *s) {
    struct pollfd p = {.fd = STDIN_FILENO, .events = POLLIN};
    char c;
    return s->launch->starter && !s->stopped_by && poll(&p, 1, 0) > 0 && read(STDIN_FILENO, &c, 1) == 0;
}

static void watch(launch_state *s) {
    while (s->running > 0) {
        double most = until_hanging(s);
        if (s->next) {
            double left = s->next_at - gs_seconds();
            if (left <= 0) {
                if (!s->told) note_all_hanging(s, false);
                send_all(s, s->next);
                s->told = true;
                plan(s, SIGKILL, GRACE);
                continue;
            }
            if (left < most) most = left;
        }
        struct timespec wait = {.tv_sec = most >= 1, .tv_nsec = most >= 1 ? 0 : (long)(most * 1e9)};
        int number = sigtimedwait(&s->waited, NULL, &wait);
        if (number == SIGCHLD || number < 0) reap(s);
        if (number > 0 && number != SIGCHLD) stop(s, number);
        if (starter_has_gone(s)) stop(s, SIGTERM);
    }
}

/* From here on signals wait until watch() takes them. One that is ignored (nohup) stays ignored. */
static void take_signals(launch_state *s) {
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1};
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

static void say_status(const launch_state *s, int rank) {
    int status = s->child[rank].status;
    fprintf(stderr, "gradsum launch: rank %d ", first_of(s) + rank);
    if (WIFSIGNALED(status) && s->told && rank != s->failed)
        fprintf(stderr, "failed"); /* by its own account; the signal was the launcher's */
    else if (WIFSIGNALED(status))
        fprintf(stderr, "was killed by signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
    else
        fprintf(stderr, "failed with exit status %d", WEXITSTATUS(status));
}

/* "gradsum launch: rank 2 hangs: process 4711 is stopped; rank 0: ..." */
static void say_why(const launch_state *s, const gs_launch_why *why) {
    fprintf(stderr, "gradsum launch: ");
    for (int r = 0; r < s->launch->size; r++)
        if (s->child[r].hangs[0]) fprintf(stderr, "rank %d hangs: %s; ", first_of(s) + r, s->child[r].hangs);
    fprintf(stderr, "%s", why->message);
}

/* The last line. A rank that was killed, or failed for a reason of its own, is to blame. If all ranks merely lost
 * another one, the message of the first says which. */
static void say_failure(const launch_state *s) {
    gs_launch_why why;
    if (s->hung >= 0) {
        fprintf(stderr, "gradsum launch: rank %d hangs: %s", first_of(s) + s->hung, s->child[s->hung].hangs);
        if (s->failed_others > 0) fprintf(stderr, "; ended the other %d that still ran", s->failed_others);
        fputc('\n', stderr);
        return;
    }
    bool told = WIFEXITED(s->child[s->failed].status) && gs_launch_why_first(s->why, &why);
    const int reporter = told ? why.rank - first_of(s) : -1;
    if (told && why.code == GS_E_PEER)
        say_why(s, &why);
    else
        say_status(s, told && reporter >= 0 && reporter < s->launch->size ? reporter : s->failed);
    if (s->failed_others > 0)
        fprintf(stderr, s->told ? "; ended the other %d" : "; the other %d ended too", s->failed_others);
    fputc('\n', stderr);
}

/* The signal at which a rank ended in order, or 0: the shell's convention for it is 128 + N (SIGPIPE: see output.c). */
static int stopped_itself(const launch_state *s) {
    for (int r = 0; r < s->launch->size && !s->told; r++) {
        int status = s->child[r].status;
        if (WIFEXITED(status) && WEXITSTATUS(status) > 128) return WEXITSTATUS(status) - 128;
    }
    return 0;
}

static int outcome(const launch_state *s) {
    int usage = 0, ended = 0; /* ended by us before they could say the same */
    for (int r = 0; r < s->launch->size; r++) {
        int status = s->child[r].status;
        usage += WIFEXITED(status) && WEXITSTATUS(status) == GS_EXIT_USAGE;
        ended += s->told && WIFSIGNALED(status);
    }
    if (s->failed < 0) return GS_EXIT_OK;
    int signal_number = s->stopped_by ? s->stopped_by : stopped_itself(s);
    if (signal_number) {
        fprintf(stderr, "gradsum launch: stopped by signal %d (%s)\n", signal_number,
                strsignal(signal_number));
        return 128 + signal_number;
    }
    if (usage < s->launch->size)
        return say_failure(s), usage > 0 && usage + ended == s->launch->size ? GS_EXIT_USAGE : GS_EXIT_FAILED;
    if (usage > 1) fprintf(stderr, "gradsum launch: all %d processes failed with this error\n", usage);
    return GS_EXIT_USAGE;
}

int gs_launch_run(const gs_launch *launch) {
    launch_state s = {.launch = launch, .failed = -1, .hung = -1, .timeout = gs_launch_timeout(launch)};
    gs_launch_place place;
    gs_status status = gs_launch_place_create(launch, &place);
    s.why = gs_launch_why_create();
    if (status == GS_OK) {
        s.place = &place;
        take_signals(&s);
        status = start(&s, &place);
        if (status == GS_OK) status = gs_launch_place_open(&place);
        if (status != GS_OK) send_all(&s, SIGKILL);
        watch(&s);
    }
    const bool awaited = launch->nodes > 1 && s.failed >= 0 && !s.stopped_by;
    gs_launch_place_remove(&place, awaited ? launch->world : 0);
    int exit_status = status == GS_OK ? outcome(&s) : GS_EXIT_FAILED;
    if (s.why >= 0) close(s.why);
    if (status == GS_OK) return exit_status;
    fprintf(stderr, "gradsum launch: %s\n", gs_message());
    return GS_EXIT_FAILED;
}
