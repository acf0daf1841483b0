/* Starts several processes, watches them, ends them together, and restarts them.
 *
 * The processes are started by fork and exec, from a process that has used neither OpenBLAS nor OpenCL: both have
 * threads, which a fork does not copy.
 */
#include "cli/launch/launch.h"
#include "cli/cli.h"
#include "comm/rendezvous/store_server.h"
#include "core/process.h"
#include "core/clock.h"
#include "core/usable.h"
#include "persist/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

/* Normally the other processes notice a failure and end, and each reports what it saw. GRACE is the time in seconds
 * until the launcher sends them SIGTERM, and also the time from then until it kills them. */
static const double GRACE = 2;

static const double GRACE_STOP = 10; /* after Ctrl-C, while the processes finish a step and save */

static const double LOOK = 0.25; /* seconds between looks; gs_awake_seconds requires less than 0.5 */

/* A second Ctrl-C after more than this many seconds is a new request, not the first one delivered twice. */
static const double AGAIN = 0.5;

/* One attempt: from the start of all processes to the end of the last one. */
typedef struct gs_attempt {
    gs_launch_processes processes;
    gs_launch_rendezvous rendezvous;
    gs_elastic elastic;
    int failed;        /* the slot to blame, or -1 */
    int failed_others; /* the number of other processes still running when the first failed */
    bool told;         /* a signal was needed to end them */
    int stopped_by;    /* the signal that stopped the launch, or 0 */
    double stopped_at;
    int next_signal; /* the next signal for the running processes: 0, SIGTERM or SIGKILL, */
    double next_at;  /* and when it is due */
    sigset_t waited;
} gs_attempt;

/* ---- starting ---- */

static gs_status set_environment(const gs_launch_processes *p, const gs_launch_rendezvous *r, int slot,
                                 int size, const cpu_set_t *share) {
    GS_TRY(gs_launch_set_environment(r, p->launch, slot));
    const bool bound = share && gs_cores_bind(share) && setenv("GRADSUM_OWN_CPUS", "1", 1) == 0;
    if (!bound) unsetenv("GRADSUM_OWN_CPUS");
    const bool set = gs_launch_set_number("GRADSUM_RANK", p->rank[slot]) &&
                     gs_launch_set_number("GRADSUM_WORLD_SIZE", size) &&
                     gs_shared_set_environment(p->shared, slot);
    return set ? GS_OK : gs_fail(GS_E_MEMORY, "no memory for the environment of rank %d", p->rank[slot]);
}

void gs_launch_begin_child(pid_t launcher, const sigset_t *before) {
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != launcher) _exit(GS_EXIT_FAILED); /* the launcher died before prctl */
    setpgid(0, 0);
    signal(SIGTTOU, SIG_IGN);
    sigprocmask(SIG_SETMASK, before, NULL);
}

/* In the new process: become gradsum again. Returns only if that fails. */
static gs_status become_rank(const gs_launch_processes *p, const gs_launch_rendezvous *r, int slot, int size,
                             pid_t launcher) {
    const gs_launch *l = p->launch;
    cpu_set_t share;
    const bool bind = l->bind && l->size > 1 && gs_cores_share(slot, l->size, &share);
    int words = 0;
    gs_launch_begin_child(launcher, &p->blocked);
    const int nothing = l->starter ? open("/dev/null", O_RDONLY | O_CLOEXEC) : -1;
    if (nothing >= 0) dup2(nothing, STDIN_FILENO); /* only the launcher reads standard input */
    GS_TRY(set_environment(p, r, slot, size, bind ? &share : NULL));
    while (l->command[words]) words++;
    char **argv = calloc((size_t)words + 2, sizeof *argv);
    if (!argv) return gs_fail(GS_E_MEMORY, "no memory for the command");
    argv[0] = "gradsum";
    memcpy(argv + 1, l->command, (size_t)words * sizeof *argv);
    execv("/proc/self/exe", argv);
    return gs_fail(GS_E_FILE, "cannot start this program again: /proc/self/exe: %s", strerror(errno));
}

gs_status gs_launch_start_process(gs_launch_processes *p, const gs_launch_rendezvous *r, int slot, int size) {
    const pid_t launcher = getpid(), pid = fork();
    if (pid == 0) {
        become_rank(p, r, slot, size, launcher);
        gs_tell("launch", "%s", gs_message());
        _exit(GS_EXIT_FAILED);
    }
    if (pid < 0)
        return gs_fail(GS_E_MEMORY, "cannot start process %d of %d: %s", slot, p->launch->size,
                       strerror(errno));
    p->child[slot] = (gs_launch_child){.pid = pid};
    p->running++;
    return GS_OK;
}

static gs_status start_all(gs_attempt *a) {
    gs_launch_processes *p = &a->processes;
    gs_status status = GS_OK;
    for (int i = 0; i < p->launch->size; i++) p->rank[i] = p->launch->first + i;
    for (int i = 0; i < p->launch->size && status == GS_OK; i++)
        status = gs_launch_start_process(p, &a->rendezvous, i, p->launch->world_size);
    return status;
}

/* ---- a rank that never joins ----
 *
 * A rank may end before it reaches the rendezvous. A rank that detects its error reports it there (gs_comm_fail_early).
 * A rank that is killed or cannot start reports nothing, and the ranks of other nodes would wait for the whole
 * time-out. Its launcher therefore reports for it, within 2 s:
 *
 *     rank 0: rank 3 failed before it joined: it was killed by signal 9 (Killed), on node rank 1 (host berta)
 */
static void leave_word(const gs_attempt *a, int slot, const char *what) {
    const gs_launch *l = a->processes.launch;
    const char *where = a->rendezvous.where;
    char why[400];
    struct utsname here;
    gs_rendezvous r = {.rank = a->processes.rank[slot],
                       .size = l->world_size,
                       .timeout = a->processes.timeout,
                       .ports = 1,
                       .nodes = l->nodes,
                       .local_rank = -1};
    if (gs_endpoint_is_folder(where))
        r.directory = where;
    else
        snprintf(r.endpoint, sizeof r.endpoint, "%.*s", (int)sizeof r.endpoint - 1, where);
    snprintf(why, sizeof why, "%s, on node rank %d (host %s)", what, l->node,
             uname(&here) == 0 ? here.nodename : "unknown");
    gs_comm_fail_early(&r, GS_E_PEER, why);
}

/* Appends "was killed by signal 9 (Killed)" or "failed with exit status 1". */
static void append_status(int status, char *text, size_t size) {
    if (WIFSIGNALED(status))
        gs_append(text, size, "was killed by signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
    else
        gs_append(text, size, "failed with exit status %d", WEXITSTATUS(status));
}

/* Report that a rank failed early, unless the ranks have met, or the rank or the launcher has already reported it. */
static void tell_early_failure(const gs_attempt *a, int slot) {
    const gs_launch_processes *p = &a->processes;
    char what[200] = "it ";
    if (p->launch->nodes == 1 || atomic_load(&p->shared->met) || atomic_load(&p->shared->over)) return;
    if (!a->stopped_by && gs_shared_has_reported(p->shared, slot)) return;
    if (a->stopped_by)
        gs_append(what, sizeof what, "was stopped by signal %d (%s)", a->stopped_by,
                  strsignal(a->stopped_by));
    else
        append_status(p->child[slot].status, what, sizeof what);
    leave_word(a, slot, what);
}

/* ---- watching ---- */

static void send_all(const gs_attempt *a, int number) {
    for (int i = 0; i < a->processes.launch->size; i++)
        if (a->processes.child[i].pid > 0) kill(a->processes.child[i].pid, number);
}

static void plan_signal(gs_attempt *a, int number, double seconds) {
    a->next_signal = number;
    a->next_at = gs_awake_seconds() + seconds;
}

static bool is_stopped(const gs_launch_child *c) {
    return c->pid > 0 && gs_process_is_stopped(c->pid);
}

void gs_launch_note_hanging(gs_launch_child *c) {
    char does[60];
    if (c->pid <= 0 || c->hangs[0]) return;
    gs_process_does(c->pid, does, sizeof does);
    snprintf(c->hangs, sizeof c->hangs, "process %d %s", (int)c->pid, does);
}

static void note_all_hanging(gs_attempt *a, bool only_stopped) {
    gs_launch_child *c = a->processes.child;
    for (int i = 0; i < a->processes.launch->size; i++)
        if (!only_stopped || is_stopped(&c[i])) gs_launch_note_hanging(&c[i]);
}

gs_launch_blame gs_launch_blame_of(int status) {
    if (WIFSIGNALED(status)) return GS_BLAME_KILLED;
    return WEXITSTATUS(status) == GS_EXIT_USAGE ? GS_BLAME_USAGE : GS_BLAME_EXIT;
}

/* Records that a rank has failed. The first rank to fail is blamed, unless a rank whose failure is noticed later must
 * have been the cause; a rank that the launcher killed is never blamed. */
static void note_failure(gs_attempt *a, int slot) {
    const gs_launch_child *c = a->processes.child;
    if (a->failed < 0) {
        a->failed_others = a->processes.running;
        if (!a->stopped_by) note_all_hanging(a, true);
        tell_early_failure(a, slot);
        a->failed = slot;
    } else if (gs_launch_blame_of(c[slot].status) > gs_launch_blame_of(c[a->failed].status) &&
               a->next_signal != SIGKILL) {
        a->failed = slot;
    }
    if (a->next_signal == 0) plan_signal(a, SIGTERM, GRACE);
}

/* SIGTERM has no effect on a stopped process, so if only stopped processes are left, kill them at once. After Ctrl-C,
 * wait for the time-out first, because a process might be stopped only briefly. */
static void look_for_stopped(gs_attempt *a) {
    const gs_launch_processes *p = &a->processes;
    if (p->running == 0 || (a->failed < 0 && !a->stopped_by) || a->next_signal != SIGTERM) return;
    if (a->stopped_by && gs_awake_seconds() - a->stopped_at < p->timeout) return;
    for (int i = 0; i < p->launch->size; i++)
        if (p->child[i].pid > 0 && !is_stopped(&p->child[i])) return;
    note_all_hanging(a, true);
    a->told = true;
    plan_signal(a, SIGKILL, 0);
}

/* Ranks that have ended wait for no one, so only the launcher notices a rank stopped while saving or exiting. */
static void look_for_hanging(gs_attempt *a) {
    gs_launch_processes *p = &a->processes;
    const double now = gs_awake_seconds();
    if (a->failed >= 0 || a->stopped_by || p->running == p->launch->size) return;
    if (p->shared->elastic && !gs_elastic_is_ending(p)) return; /* the other ranks notice a hanging one */
    for (int i = 0; i < p->launch->size && a->failed < 0; i++) {
        gs_launch_child *c = &p->child[i];
        if (!is_stopped(c)) {
            c->stopped_since = 0;
        } else if (c->stopped_since <= 0) {
            c->stopped_since = now;
        } else if (now - c->stopped_since >= p->timeout) {
            gs_launch_note_hanging(c);
            a->failed = i;
            a->failed_others = p->running - 1;
            plan_signal(a, SIGTERM, 0);
        }
    }
}

/* Records that a process has ended. In an elastic launch the others may continue, unless the launch is about to end. */
static void note_end(gs_attempt *a, int slot, int status) {
    gs_launch_processes *p = &a->processes;
    p->child[slot].pid = 0;
    p->child[slot].status = status;
    p->running--;
    if (status == 0 || p->rank[slot] < 0) return;
    if (p->shared->elastic && a->failed < 0 && !a->stopped_by && !atomic_load(&p->shared->over))
        gs_elastic_note_loss(&a->elastic, p, slot);
    else
        note_failure(a, slot);
}

static void reap(gs_attempt *a) {
    int status;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;)
        for (int i = 0; i < a->processes.launch->size; i++)
            if (a->processes.child[i].pid == pid) note_end(a, i, status);
    look_for_hanging(a);
    look_for_stopped(a);
}

/* Watch an elastic launch's generation; returns the seconds until the next look. */
static double look_at_generation(gs_attempt *a) {
    gs_elastic_state state = GS_ELASTIC_RUNS;
    if (a->failed < 0 && !a->stopped_by) state = gs_elastic_look(&a->elastic, &a->processes);
    if (state == GS_ELASTIC_FAILS && a->elastic.lost >= 0) note_failure(a, a->elastic.lost);
    if (state == GS_ELASTIC_FAILS && a->elastic.lost < 0) plan_signal(a, SIGTERM, GRACE);
    return state == GS_ELASTIC_WAITS ? 0.01 : 0.05;
}

/* ---- signals ---- */

void gs_launch_suspend(void) {
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, SIGTSTP);
    raise(SIGTSTP);
    sigprocmask(SIG_UNBLOCK, &one, NULL); /* the launcher stops here, and continues on SIGCONT */
    sigprocmask(SIG_BLOCK, &one, NULL);
}

static void take_signal(gs_attempt *a, int number) {
    const double now = gs_awake_seconds();
    if (number == SIGTSTP || number == SIGUSR1) { /* Ctrl-Z reaches only the launcher; SIGUSR1: save */
        send_all(a, number);
        if (number == SIGTSTP) gs_launch_suspend();
        if (number == SIGTSTP) send_all(a, SIGCONT);
        return;
    }
    if (number == SIGQUIT || (a->stopped_by && now - a->stopped_at > AGAIN)) {
        send_all(a, SIGKILL);
    } else if (!a->stopped_by) {
        const bool joining = a->rendezvous.own_folder && access(a->rendezvous.where, F_OK) == 0;
        send_all(a, number);
        /* Until the ranks have met, there is nothing to save. */
        plan_signal(a, SIGTERM, joining ? GRACE : GRACE_STOP);
    }
    if (!a->stopped_by) {
        a->stopped_by = number;
        a->stopped_at = now;
    }
}

/* Standard input ends when the starter does; until then, the starter sends bytes that suspend or resume the ranks. */
static bool starter_has_gone(const gs_attempt *a) {
    struct pollfd p = {.fd = STDIN_FILENO, .events = POLLIN};
    char c;
    while (a->processes.launch->starter && !a->stopped_by && poll(&p, 1, 0) > 0) {
        if (read(STDIN_FILENO, &c, 1) <= 0) return true;
        if (c == GS_LAUNCH_SUSPEND || c == GS_LAUNCH_RESUME)
            send_all(a, c == GS_LAUNCH_SUSPEND ? SIGTSTP : SIGCONT);
    }
    return false;
}

static void end_those_left(gs_attempt *a) {
    reap(a); /* first: ranks that ended while this launcher was stopped do not hang */
    if (a->processes.running > 0) {
        if (!a->told && !a->stopped_by) note_all_hanging(a, false);
        send_all(a, a->next_signal);
        a->told = true;
    }
    plan_signal(a, SIGKILL, GRACE);
}

static void watch(gs_attempt *a) {
    while (a->processes.running > 0) {
        double most = a->processes.shared->elastic ? look_at_generation(a) : LOOK;
        if (a->next_signal) {
            const double left = a->next_at - gs_awake_seconds();
            if (left <= 0) {
                end_those_left(a);
                continue;
            }
            if (left < most) most = left;
        }
        const struct timespec wait = gs_timespec(most);
        const int number = sigtimedwait(&a->waited, NULL, &wait);
        if (number == SIGCHLD || number < 0) reap(a);
        if (number > 0 && number != SIGCHLD) take_signal(a, number);
        if (starter_has_gone(a)) take_signal(a, SIGTERM);
    }
    /* A rank was lost, but all others ended before the launcher looked again. */
    if (a->elastic.lost >= 0 && a->failed < 0 && !a->stopped_by) note_failure(a, a->elastic.lost);
}

void gs_launch_take_signals(sigset_t *waited, sigset_t *before) {
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGTSTP};
    sigemptyset(waited);
    sigaddset(waited, SIGCHLD);
    signal(SIGCHLD, SIG_DFL);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        struct sigaction now;
        if (sigaction(numbers[i], NULL, &now) == 0 && now.sa_handler != SIG_IGN)
            sigaddset(waited, numbers[i]); /* if blocked, even an ignored signal would arrive */
    }
    sigprocmask(SIG_BLOCK, waited, before);
}

/* ---- the end: message and exit status ---- */

enum { SAID = 3900 /* maximum bytes of a failure message */ };

static void append_hanging(const gs_launch_processes *p, const char *before, const char *after, char *text,
                           size_t size) {
    for (int i = 0; i < p->launch->size; i++)
        if (p->child[i].hangs[0])
            gs_append(text, size, "%srank %d hangs: %s%s", before, p->rank[i], p->child[i].hangs, after);
}

void gs_launch_append_end(const gs_launch_processes *p, int slot, char *text, size_t size) {
    gs_append(text, size, "rank %d ", p->rank[slot]);
    if (p->child[slot].hangs[0])
        gs_append(text, size, "hangs: %s", p->child[slot].hangs);
    else
        append_status(p->child[slot].status, text, size);
}

/* The report of the cause, if it says more than the wait status of the rank to blame; else NULL. */
static const gs_launch_report *report_of(const gs_attempt *a) {
    const gs_launch_child *c = &a->processes.child[a->failed];
    const bool merely_exits = !c->hangs[0] && gs_launch_blame_of(c->status) == GS_BLAME_EXIT;
    return merely_exits ? gs_shared_cause(a->processes.shared) : NULL;
}

/* Describe the cause of the failure and return the slot to blame: a rank that was killed or that failed by itself. If
 * every rank only lost a peer or was stopped, the first report describes the failure. */
static int describe_failure(const gs_attempt *a, char *text, size_t size) {
    const gs_launch_processes *p = &a->processes;
    const gs_launch_report *report = report_of(a);
    const bool own = report && report->code != GS_E_PEER && report->code != GS_E_INTERRUPTED;
    const int slot = own ? report->slot : a->failed;
    *text = '\0';
    if (report && !own) append_hanging(p, "", "; ", text, size);
    if (report && !own)
        gs_append(text, size, "%s", report->message);
    else if (slot != a->failed && (WIFSIGNALED(p->child[slot].status) || p->child[slot].hangs[0]))
        gs_append(text, size, "rank %d failed",
                  p->rank[slot]); /* its report says why; the signal came from the launcher */
    else
        gs_launch_append_end(p, slot, text, size);
    if (a->failed_others > 0)
        gs_append(text, size, a->told ? "; ended the other %d%s" : "; the other %d ended too",
                  a->failed_others, p->child[slot].hangs[0] ? " that still ran" : "");
    return slot;
}

/* The signal N that made a rank end in an orderly way, with exit status 128 + N; 0: none. For SIGPIPE see output.c. */
static int stopped_itself(const gs_attempt *a) {
    for (int i = 0; i < a->processes.launch->size && !a->told; i++) {
        const int status = a->processes.child[i].status;
        if (WIFEXITED(status) && WEXITSTATUS(status) > 128) return WEXITSTATUS(status) - 128;
    }
    return 0;
}

/* Prints "stopped by signal 15 (Terminated); rank 2 hangs: process 4711 is stopped"; hanging ranks have been killed. */
static int say_stopped(const gs_attempt *a, int number) {
    char text[SAID] = "";
    append_hanging(&a->processes, "; ", "", text, sizeof text);
    gs_tell("launch", "stopped by signal %d (%s)%s", number, strsignal(number), text);
    return 128 + number;
}

/* Returns the exit status. text: the message of a failure, or "" if there is nothing to add. */
static int judge(const gs_attempt *a, char text[SAID]) {
    const gs_launch_processes *p = &a->processes;
    int misused = 0;
    *text = '\0';
    for (int i = 0; i < p->launch->size; i++)
        misused += gs_launch_blame_of(p->child[i].status) == GS_BLAME_USAGE;
    if (a->failed < 0) return GS_EXIT_OK;
    const int number = a->stopped_by ? a->stopped_by : stopped_itself(a);
    if (number) return say_stopped(a, number);
    const int first = p->child[a->failed].status; /* SIGPIPE: its output was closed, as by `| head` */
    if (WIFSIGNALED(first) && WTERMSIG(first) == SIGPIPE) return 128 + SIGPIPE;
    if (misused == p->launch->size) {
        if (misused > 1) gs_tell("launch", "all %d processes failed with this error", misused);
        return GS_EXIT_USAGE;
    }
    const int slot = describe_failure(a, text, SAID);
    return gs_launch_blame_of(p->child[slot].status) == GS_BLAME_USAGE ? GS_EXIT_USAGE : GS_EXIT_FAILED;
}

/* ---- launch --restarts N: after a loss all ranks start again, in a new attempt ----
 *
 *     attempt 1   steps 1 .. 40 | checkpoint | 41 .. 57 X              rank 2 is killed, and the others end
 *     attempt 2                                41 .. 57 .. 80          with --resume auto
 *
 * An attempt resumes from the folder of the command's --checkpoint; without one, or before the first checkpoint, it
 * begins as the first attempt did. Training is deterministic and a checkpoint is complete (train/state.h), so the last
 * attempt's result equals that of an undisturbed run bit for bit.
 *
 * Failures that would repeat are not retried: wrong usage, weights that diverged or differ, errors before the first
 * step, and two consecutive losses without a step between them. A run that was asked to stop is not restarted either.
 *
 * The processes of each attempt meet in a new folder, and `--log DIR` and `--digest DIR` become DIR-restart-1 and so
 * on, because the first attempt has written into DIR.
 */

/* MORE: the words added to an attempt's command: --resume, --log and --digest, each with its value. */
enum { MORE = 6, FOLDER = 4200 };

typedef struct gs_restarts {
    const gs_launch *first;
    gs_launch attempt;
    int done;     /* restarts so far */
    bool idle;    /* the previous attempt completed no step */
    bool ours;    /* the checkpoints are this run's: an attempt completed a step, or the command resumes */
    char **words; /* the command of this attempt; NULL: the first attempt's */
    char log[FOLDER], digest[FOLDER]; /* this attempt's folders */
} gs_restarts;

/* Why another attempt would fail too; NULL: it may succeed. */
static const char *why_not_again(const gs_restarts *r, const gs_attempt *a, bool stepped) {
    const gs_launch_report *report = gs_shared_cause(a->processes.shared);
    const gs_launch_child *failed = &a->processes.child[a->failed];
    const gs_launch_blame blame = gs_launch_blame_of(failed->status);
    const gs_status code = report ? report->code : GS_OK;
    if (blame == GS_BLAME_USAGE) return "it would fail again";
    if (failed->hangs[0] || blame == GS_BLAME_KILLED || code == GS_E_PEER)
        return !stepped && r->idle ? "twice in a row no step was made" : NULL;
    if (code == GS_OK) return "no rank was lost";
    if (code == GS_E_INTERRUPTED) return "it was asked to stop";
    if (code == GS_E_USAGE || code == GS_E_MODEL) return "it would fail again";
    if (code == GS_E_DIVERGED) return "it would diverge again";
    if (code == GS_E_DIFFER) return "the last checkpoint may have such weights";
    return stepped ? NULL : "it failed before its first step, and would again";
}

static int add_option(gs_restarts *r, int n, const char *option, const char *value) {
    r->words[n++] = (char *)option;
    r->words[n++] = (char *)value;
    return n;
}

/* Renames DIR to DIR-restart-2 in the command, if the option is given. */
static int rename_folder(gs_restarts *r, int n, const char *option, char name[FOLDER]) {
    const char *folder = gs_launch_option(r->first, option);
    size_t length = folder ? strlen(folder) : 0;
    if (!folder) return n;
    while (length > 1 && folder[length - 1] == '/') length--;
    snprintf(name, FOLDER, "%.*s-restart-%d", (int)length, folder, r->done);
    return add_option(r, n, option, name);
}

/* The first attempt's command followed by the new options; an option's last value counts. */
static bool make_command(gs_restarts *r, bool resume) {
    int n = 0;
    while (r->first->command[n]) n++;
    free(r->words);
    r->words = calloc((size_t)n + MORE + 1, sizeof *r->words);
    if (!r->words) return false;
    memcpy(r->words, r->first->command, (size_t)n * sizeof *r->words);
    if (resume) n = add_option(r, n, "--resume", "auto");
    n = rename_folder(r, n, "--log", r->log);
    rename_folder(r, n, "--digest", r->digest);
    r->attempt.command = r->words;
    return true;
}

/* The checkpoint to resume from; the caller frees it. NULL: none. */
static char *find_checkpoint(const gs_restarts *r, const char *folder) {
    char note[GS_CHECKPOINT_NOTE] = "", *file = NULL;
    if (!folder || !r->ours || gs_checkpoint_is_empty(folder)) return NULL;
    if (gs_checkpoint_find(folder, &file, note) != GS_OK) snprintf(note, sizeof note, "%s", gs_message());
    gs_checkpoint_let_go();
    if (*note) gs_tell("launch", "%s", note);
    return file;
}

/* Prepare the next attempt; false: there is none. Appends to the failure's text where the attempt resumes, "; restart 1
 * of 3: it goes on after step 40 (...)", or why there is no next attempt. Without --restarts, appends nothing. */
static bool plan_restart(gs_restarts *r, const gs_attempt *a, char text[SAID]) {
    const bool stepped = atomic_load(&a->processes.shared->stepped) > 0;
    const char *folder = gs_launch_option(r->first, "--checkpoint"), *no = why_not_again(r, a, stepped);
    if (r->first->restarts == 0) return false;
    if (no) {
        gs_append(text, SAID, "; not started again: %s", no);
        return false;
    }
    if (r->done == r->first->restarts) {
        gs_append(text, SAID, "; that was the last of %d restart%s", r->done, gs_s((unsigned)r->done));
        return false;
    }
    r->done++;
    r->idle = !stepped;
    r->ours |= stepped;
    char *file = find_checkpoint(r, folder);
    if (!make_command(r, file != NULL)) {
        gs_append(text, SAID, "; no memory to start it again");
        free(file);
        return false;
    }
    gs_append(text, SAID, "; restart %d of %d: ", r->done, r->first->restarts);
    if (file)
        gs_append(text, SAID, "it goes on after step %" PRIu64 " (%s)", gs_checkpoint_step(file), file);
    else if (folder)
        gs_append(text, SAID, "it begins as before, because there is no checkpoint of this run in %s",
                  folder);
    else
        gs_append(text, SAID, "it begins as before, because the command has no --checkpoint");
    free(file);
    if (*r->log) gs_append(text, SAID, "; its log is in %s", r->log);
    return true;
}

/* ---- a whole launch ---- */

/* Not all processes could be started: end those that are running, and tell the other nodes. */
static void give_up(gs_attempt *a) {
    const gs_launch_processes *p = &a->processes;
    char why[300];
    snprintf(why, sizeof why, "%s", gs_message());
    gs_tell("launch", "%s", why);
    if (p->launch->nodes > 1 && p->running < p->launch->size) {
        if (a->rendezvous.server) gs_store_server_start(a->rendezvous.server);
        leave_word(a, p->running, why);
    }
    atomic_store(&p->shared->over, 1);
    send_all(a, SIGKILL);
}

/* Start all processes and wait for them. Signals stay blocked between two attempts, so the next attempt receives a
 * signal that arrives in between. */
static gs_status attempt(gs_attempt *a, const gs_launch *launch) {
    gs_launch_processes *p = &a->processes;
    *a = (gs_attempt){.processes = {.launch = launch,
                                    .shared = p->shared,
                                    .timeout = gs_launch_timeout(launch),
                                    .blocked = p->blocked},
                      .elastic = {.lost = -1},
                      .failed = -1,
                      .waited = a->waited};
    gs_shared_clear(p->shared);
    gs_status status = gs_launch_rendezvous_create(launch, &a->rendezvous);
    if (status != GS_OK) {
        gs_tell("launch", "%s", gs_message());
    } else {
        status = start_all(a);
        if (status == GS_OK && a->rendezvous.server) status = gs_store_server_start(a->rendezvous.server);
        if (status != GS_OK) give_up(a);
        watch(a);
    }
    const bool met = atomic_load(&p->shared->met) != 0;
    gs_launch_rendezvous_remove(&a->rendezvous, launch, met,
                                launch->nodes > 1 && (status != GS_OK || a->failed >= 0));
    if (a->elastic.regrouped) gs_launch_rendezvous_remove(&a->elastic.rendezvous, launch, met, false);
    return status;
}

int gs_launch_run(const gs_launch *launch) {
    gs_attempt a = {0};
    gs_restarts restarts = {
        .first = launch, .attempt = *launch, .ours = gs_launch_option(launch, "--resume") != NULL};
    sigset_t pipe;
    int exit_status = GS_EXIT_FAILED;
    bool again = gs_shared_create(launch->elastic_min > 0, &a.processes.shared) == GS_OK;
    if (!again) gs_tell("launch", "%s", gs_message());
    gs_launch_take_signals(&a.waited, &a.processes.blocked);
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    /* A store may close the connection while the launcher reports a rank to it. */
    if (launch->nodes > 1) sigprocmask(SIG_BLOCK, &pipe, NULL);
    while (again) {
        char text[SAID] = "";
        exit_status = GS_EXIT_FAILED;
        if (attempt(&a, &restarts.attempt) == GS_OK) exit_status = judge(&a, text);
        again = *text && plan_restart(&restarts, &a, text);
        if (*text) gs_tell("launch", "%s", text);
    }
    free(restarts.words);
    gs_shared_free(a.processes.shared);
    return exit_status;
}
