/* Starting several processes, watching over them, and ending them together.
 *
 * They are started by fork and exec, from a process that has used neither OpenBLAS nor OpenCL: both keep
 * threads, which a fork would not take along.
 */
#include "cli/cli.h"
#include "cli/launch/board.h"
#include "cli/launch/elastic.h"
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
static const double LOOK = 0.25;     /* seconds between two looks, which gs_awake_seconds wants */
static const double AGAIN = 0.5; /* a second Ctrl-C comes from a person, not from the same one sent twice */

/* ---- starting ---- */

/* In the new process: die with the launcher, ignore the terminal, become gradsum again. */
static void become_rank(const gs_launch_state *s, char **argv, pid_t launcher, const cpu_set_t *share) {
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

static gs_status set_environment(const gs_launch_state *s, const gs_launch_place *place, int seat, int size) {
    GS_TRY(gs_launch_place_for(place, s->launch, seat));
    if (!s->board) return GS_OK;
    const bool set = gs_launch_set_number("GRADSUM_RANK", s->rank[seat]) &&
                     gs_launch_set_number("GRADSUM_WORLD_SIZE", size) && gs_elastic_board_set(s->board, seat);
    return set ? GS_OK : gs_fail(GS_E_MEMORY, "no memory for the environment of rank %d", s->rank[seat]);
}

/* argv: the command, to be freed. */
static gs_status make_argv(const gs_launch *launch, char ***argv) {
    int words = 0;
    while (launch->command[words]) words++;
    *argv = calloc((size_t)words + 2, sizeof **argv);
    if (!*argv) return gs_fail(GS_E_MEMORY, "no memory for the command");
    (*argv)[0] = "gradsum";
    memcpy(*argv + 1, launch->command, (size_t)words * sizeof **argv);
    return GS_OK;
}

gs_status gs_launch_start_one(gs_launch_state *s, const gs_launch_place *place, int seat, int size) {
    const gs_launch *l = s->launch;
    char **argv;
    cpu_set_t share;
    const pid_t launcher = getpid();
    GS_TRY(set_environment(s, place, seat, size));
    GS_TRY(make_argv(l, &argv));
    const bool bind = l->bind && l->size > 1 && gs_cores_share(seat, l->size, &share);
    const pid_t pid = fork();
    if (pid == 0) become_rank(s, argv, launcher, bind ? &share : NULL);
    free(argv);
    if (pid < 0)
        return gs_fail(GS_E_MEMORY, "cannot start process %d of %d: %s", seat, l->size, strerror(errno));
    s->child[seat] = (gs_launch_child){.pid = pid};
    s->running++;
    return GS_OK;
}

static gs_status start(gs_launch_state *s, const gs_launch_place *place) {
    for (int r = 0; r < s->launch->size; r++) s->rank[r] = s->launch->first + r;
    for (int r = 0; r < s->launch->size; r++) GS_TRY(gs_launch_start_one(s, place, r, s->launch->size));
    return GS_OK;
}

/* ---- watching ---- */

static void send_all(const gs_launch_state *s, int number) {
    for (int r = 0; r < s->launch->size; r++)
        if (s->child[r].pid > 0) kill(s->child[r].pid, number);
}

static void plan(gs_launch_state *s, int number, double seconds) {
    s->next = number;
    s->next_at = gs_awake_seconds() + seconds;
}

static void note_hanging(gs_launch_child *c, bool only_stopped) {
    char does[60];
    if (c->pid <= 0 || c->hangs[0] || (only_stopped && !gs_process_is_stopped(c->pid))) return;
    gs_process_does(c->pid, does, sizeof does);
    snprintf(c->hangs, sizeof c->hangs, "process %d %s", (int)c->pid, does);
}

void gs_launch_note_hanging(gs_launch_child *c) {
    note_hanging(c, false);
}

static void note_all_hanging(gs_launch_state *s, bool only_stopped) {
    for (int r = 0; r < s->launch->size && !s->stopped_by; r++) note_hanging(&s->child[r], only_stopped);
}

/* A rank has failed. The first one to fail is to blame. But a rank that was killed is the cause even if another was
 * seen first: one that merely exits may have done so because it noticed the loss. */
void gs_launch_note_failure(gs_launch_state *s, int seat) {
    bool worse =
        s->failed >= 0 && WIFEXITED(s->child[s->failed].status) && WIFSIGNALED(s->child[seat].status);
    if (s->failed < 0) s->failed_others = s->running;
    if (s->failed < 0) note_all_hanging(s, true);
    if (s->failed < 0) gs_launch_tell_absent(s, seat);
    if (s->failed < 0 || (worse && s->next != SIGKILL)) s->failed = seat;
    if (s->next == 0) plan(s, SIGTERM, GRACE);
}

/* SIGTERM has no effect on a stopped process. If only stopped ones are left, nobody needs time to end. But after
 * Ctrl-C, which may find one that is stopped for a moment, they have the time-out. */
static void look_for_stopped(gs_launch_state *s) {
    for (int r = 0; r < s->launch->size; r++)
        if (s->child[r].pid > 0 && !gs_process_is_stopped(s->child[r].pid)) return;
    if (s->running == 0 || (s->failed < 0 && !s->stopped_by) || s->next != SIGTERM) return;
    if (s->stopped_by && gs_awake_seconds() - s->stopped_at < s->timeout) return;
    for (int r = 0; r < s->launch->size && s->stopped_by; r++) note_hanging(&s->child[r], true);
    s->told = true;
    plan(s, SIGKILL, 0);
}

/* Ranks that have ended wait for nobody. So only the launcher notices a rank that is stopped while it saves or ends. */
static void look_for_hanging(gs_launch_state *s) {
    const double now = gs_awake_seconds();
    if (s->failed >= 0 || s->stopped_by || s->running == s->launch->size) return;
    if (s->elastic && !gs_elastic_is_ending(s)) return; /* the others notice it */
    for (int r = 0; r < s->launch->size && s->failed < 0; r++) {
        gs_launch_child *c = &s->child[r];
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

/* Seconds until look_for_hanging may find something, LOOK at most. */
static double until_hanging(const gs_launch_state *s) {
    double left = LOOK;
    for (int r = 0; r < s->launch->size; r++) {
        double since = s->child[r].stopped_since, own = since + s->timeout - gs_awake_seconds();
        if (s->child[r].pid > 0 && since > 0 && own < left) left = own;
    }
    return left > 0.001 ? left : 0.001;
}

static void reap(gs_launch_state *s) {
    int status;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
        for (int r = 0; r < s->launch->size; r++) {
            if (s->child[r].pid != pid) continue;
            s->child[r].pid = 0;
            s->child[r].status = status;
            s->running--;
            if (status != 0 && s->elastic)
                gs_elastic_lost(s, r);
            else if (status != 0)
                gs_launch_note_failure(s, r);
        }
    }
    look_for_hanging(s);
    look_for_stopped(s);
}

void gs_launch_stand_still(void) {
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, SIGTSTP);
    raise(SIGTSTP);
    sigprocmask(SIG_UNBLOCK, &one, NULL); /* here it stops, and goes on at SIGCONT */
    sigprocmask(SIG_BLOCK, &one, NULL);
}

/* Ctrl-Z. As the ranks are in groups of their own, the terminal has stopped none of them. */
static void stand_still(const gs_launch_state *s) {
    send_all(s, SIGTSTP);
    gs_launch_stand_still();
    send_all(s, SIGCONT);
}

static void stop(gs_launch_state *s, int number) {
    double now = gs_awake_seconds();
    if (number == SIGTSTP) {
        stand_still(s);
        return;
    }
    if (number == SIGUSR1) { /* they make a checkpoint, and go on */
        send_all(s, number);
        return;
    }
    if (number == SIGQUIT || (s->stopped_by && now - s->stopped_at > AGAIN)) {
        send_all(s, SIGKILL);
    } else if (!s->stopped_by) {
        send_all(s, number);
        const char *folder = s->place.folder;
        bool meeting = *folder && access(folder, F_OK) == 0; /* there is nothing to save yet */
        plan(s, SIGTERM, meeting ? GRACE : GRACE_STOP);
    }
    if (!s->stopped_by) {
        s->stopped_by = number;
        s->stopped_at = now;
    }
}

/* Its end is the end of standard input; what it writes there are the signals that stop its ranks for a while. */
static bool starter_has_gone(const gs_launch_state *s) {
    struct pollfd p = {.fd = STDIN_FILENO, .events = POLLIN};
    char c;
    while (s->launch->starter && !s->stopped_by && poll(&p, 1, 0) > 0) {
        if (read(STDIN_FILENO, &c, 1) <= 0) return true;
        if (c == GS_LAUNCH_HALT || c == GS_LAUNCH_GO_ON) send_all(s, c == GS_LAUNCH_HALT ? SIGTSTP : SIGCONT);
    }
    return false;
}

static void end_those_left(gs_launch_state *s) {
    if (s->running > 0) {
        if (!s->told) note_all_hanging(s, false);
        send_all(s, s->next);
        s->told = true;
    }
    plan(s, SIGKILL, GRACE);
}

static void watch(gs_launch_state *s) {
    while (s->running > 0) {
        double most = until_hanging(s);
        if (s->elastic) most = gs_elastic_look(s) ? 0.01 : 0.05;
        if (s->next) {
            double left = s->next_at - gs_awake_seconds();
            if (left <= 0) {
                reap(s); /* who has ended does not hang: this launcher may have been stopped meanwhile */
                end_those_left(s);
                continue;
            }
            if (left < most) most = left;
        }
        const struct timespec wait = gs_timespec(most);
        int number = sigtimedwait(&s->waited, NULL, &wait);
        if (number == SIGCHLD || number < 0) reap(s);
        if (number > 0 && number != SIGCHLD) stop(s, number);
        if (starter_has_gone(s)) stop(s, SIGTERM);
    }
}

void gs_launch_take_signals(sigset_t *waited, sigset_t *before) {
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGTSTP};
    sigemptyset(waited);
    sigaddset(waited, SIGCHLD);
    signal(SIGCHLD, SIG_DFL);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        struct sigaction now;
        if (sigaction(numbers[i], NULL, &now) == 0 && now.sa_handler != SIG_IGN)
            sigaddset(waited, numbers[i]); /* a signal that is blocked waits even where it is ignored */
    }
    sigprocmask(SIG_BLOCK, waited, before);
}

static void take_signals(gs_launch_state *s) {
    sigset_t pipe;
    gs_launch_take_signals(&s->waited, &s->before);
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    /* The store where an absence is told may hang up. */
    if (s->launch->nodes > 1) sigprocmask(SIG_BLOCK, &pipe, NULL);
}

/* Start all processes and wait for them. What the state holds of an earlier attempt is forgotten, but for the signals,
 * which stay blocked between two: one that comes then is taken by the next. */
static int attempt(gs_launch_state *s, gs_restarts *restarts, bool *again) {
    const gs_launch *launch = gs_restarts_attempt(restarts);
    const bool first = !s->launch;
    *s = (gs_launch_state){.launch = launch,
                           .failed = -1,
                           .hung = -1,
                           .timeout = gs_launch_timeout(launch),
                           .why = s->why,
                           .waited = s->waited,
                           .before = s->before};
    gs_launch_why_clear(s->why);
    gs_status status = gs_launch_place_create(launch, &s->place);
    if (status == GS_OK) status = gs_elastic_create(s);
    if (status == GS_OK) {
        if (first) take_signals(s);
        status = start(s, &s->place);
        if (status == GS_OK) status = gs_launch_place_open(&s->place);
        if (status != GS_OK) {
            gs_elastic_give_up(s);
            send_all(s, SIGKILL);
        }
        watch(s);
        gs_elastic_close(s);
    }
    const bool awaited = launch->nodes > 1 && s->failed >= 0 && !s->stopped_by;
    gs_launch_place_remove(&s->place, awaited ? launch->world : 0);
    gs_elastic_free(s);
    if (status == GS_OK) return gs_launch_outcome(s, restarts, again);
    gs_launch_say("%s", gs_message());
    return GS_EXIT_FAILED;
}

int gs_launch_run(const gs_launch *launch) {
    gs_launch_state s = {.why = gs_launch_why_create()};
    gs_restarts *restarts = NULL;
    int exit_status = GS_EXIT_FAILED;
    bool again = gs_restarts_create(launch, &restarts) == GS_OK;
    if (!again) gs_launch_say("%s", gs_message());
    while (again) {
        again = false;
        exit_status = attempt(&s, restarts, &again);
    }
    gs_restarts_free(restarts);
    if (s.why >= 0) close(s.why);
    return exit_status;
}
