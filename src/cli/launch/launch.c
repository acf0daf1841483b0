/* Starting several processes, watching over them, and ending them together.
 *
 * They are started by fork and exec, from a process that has used neither OpenBLAS nor OpenCL: both keep
 * threads, which a fork would not take along.
 */
#include "cli/launch/launch.h"
#include "cli/cli.h"
#include "comm/comm.h"
#include "comm/meet/store.h"
#include "comm/process.h"
#include "core/clock.h"
#include "core/cores.h"
#include "core/text.h"
#include "train/checkpoint/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

/* How an attempt has failed. */
typedef struct gs_launch_failure {
    bool lost;      /* a rank was killed, hung, or was cut off */
    gs_status code; /* else: what a rank says is wrong; GS_OK: none has said anything */
    bool stepped;   /* the attempt has made a step */
} gs_launch_failure;

/* ---- launch --restarts N: when a rank was lost, all ranks start again, in a new attempt ----
 *
 *     attempt 1   steps 1 .. 40 | checkpoint | 41 .. 57 X              rank 2 is killed, and the others end
 *     attempt 2                                41 .. 57 .. 80          with --resume auto
 *
 * The folder is that of the command's --checkpoint; without one, or before the first checkpoint, an attempt begins as
 * the first did. Training is deterministic and a checkpoint has all that it needs (train/state.h), so the last attempt
 * ends with the bits of a run in which no rank was lost.
 *
 * What would fail again is not started again: bad usage, weights that have diverged or differ, what a rank finds wrong
 * before the first step, and two losses in turn without a step between them. Nor is what was asked to stop.
 *
 * Each attempt is new to the command: it has a folder to meet in, and `--log DIR` and `--digest DIR` become
 * DIR-restart-1 and so on, because the first attempt has written into DIR.
 */

enum { MORE = 6 }; /* words that an attempt adds: --resume, --log and --digest, each with its value */

typedef struct gs_restarts {
    const gs_launch *first;
    gs_launch attempt;
    int done;           /* restarts */
    bool idle;          /* the attempt before made no step */
    const char *folder; /* of --checkpoint; NULL: none */
    bool ours;          /* the checkpoints in it are of this run */
    char **words;       /* of this attempt's command; NULL: it is the first one's */
    char *file;         /* the checkpoint that it goes on from; NULL: none */
    char *log, *digest; /* its folders; NULL: none */
} gs_restarts;

/* Does the command itself go on from this folder, or from a file in it? */
static bool resumes_from(const gs_launch *l, const char *folder) {
    const char *resume = gs_launch_option(l, "--resume");
    const size_t length = strlen(folder);
    if (!resume || strncmp(resume, folder, length) != 0) return false;
    return resume[length] == '\0' || resume[length] == '/' || (length > 0 && folder[length - 1] == '/');
}

/* Before the first attempt of a launch. */
static gs_restarts begin_restarts(const gs_launch *l) {
    const char *folder = l->restarts > 0 ? gs_launch_option(l, "--checkpoint") : NULL;
    /* In a folder of another run's checkpoints train refuses to begin; and if a rank is lost before it has looked,
     * they must not be taken for this run's. */
    const bool ours = folder && (gs_checkpoint_is_empty(folder) || resumes_from(l, folder));
    return (gs_restarts){.first = l, .attempt = *l, .folder = folder, .ours = ours};
}

static void forget_attempt(gs_restarts *r) {
    free(r->words);
    free(r->file);
    free(r->log);
    free(r->digest);
    r->words = NULL;
    r->file = r->log = r->digest = NULL;
}

/* ---- whether ---- */

/* NULL: another attempt may do better. */
static const char *why_not(const gs_restarts *r, const gs_launch_failure *f) {
    if (f->lost) return !f->stepped && r->idle ? "twice in turn no step was made" : NULL;
    if (f->code == GS_OK) return "no rank was lost";
    if (f->code == GS_E_USAGE || f->code == GS_E_MODEL) return "it would fail again";
    if (f->code == GS_E_DIVERGED) return "it would diverge again";
    if (f->code == GS_E_DIFFER) return "the last checkpoint may have such weights";
    return f->stepped ? NULL : "it failed before its first step, and would again";
}

/* ---- from where ---- */

/* DIR -> DIR-restart-2. */
static bool rename_folder(const gs_restarts *r, const char *option, char **name) {
    const char *folder = gs_launch_option(r->first, option);
    if (!folder) return true;
    size_t length = strlen(folder);
    while (length > 1 && folder[length - 1] == '/') length--;
    if (asprintf(name, "%.*s-restart-%d", (int)length, folder, r->done) >= 0) return true;
    *name = NULL;
    return false;
}

static int add_option(char **words, int n, const char *option, const char *value) {
    if (!value) return n;
    words[n++] = (char *)option;
    words[n++] = (char *)value;
    return n;
}

/* The command of the first attempt, and what is new; of an option that is given twice the last one counts. */
static bool make_command(gs_restarts *r) {
    int n = 0;
    while (r->first->command[n]) n++;
    r->words = calloc((size_t)n + MORE + 1, sizeof *r->words);
    if (!r->words || !rename_folder(r, "--log", &r->log) || !rename_folder(r, "--digest", &r->digest))
        return false;
    memcpy(r->words, r->first->command, (size_t)n * sizeof *r->words);
    n = add_option(r->words, n, "--resume", r->file ? "auto" : NULL);
    n = add_option(r->words, n, "--log", r->log);
    add_option(r->words, n, "--digest", r->digest);
    r->attempt.command = r->words;
    return true;
}

static void find_checkpoint(gs_restarts *r) {
    char note[GS_CHECKPOINT_NOTE] = "";
    if (!r->ours || gs_checkpoint_is_empty(r->folder)) return;
    if (gs_checkpoint_find(r->folder, &r->file, note) != GS_OK)
        snprintf(note, sizeof note, "%s", gs_message());
    gs_checkpoint_let_go(); /* nobody else writes there now */
    if (*note) gs_launch_say("%s", note);
}

static void say_where(const gs_restarts *r, char *what, size_t size) {
    gs_append(what, size, "; restart %d of %d: ", r->done, r->first->restarts);
    if (r->file)
        gs_append(what, size, "it goes on after step %" PRIu64 " (%s)", gs_checkpoint_step(r->file), r->file);
    else if (r->folder)
        gs_append(what, size, "it begins as before, because there is no checkpoint of this run in %s",
                  r->folder);
    else
        gs_append(what, size, "it begins as before, because the command has no --checkpoint");
    if (r->log) gs_append(what, size, "; its log is in %s", r->log);
}

/* An attempt has failed: is there another? *what: where that goes on, or why there is none, to stand after the
 * failure: "; restart 1 of 3: it goes on after step 40 (...)"; without --restarts "". */
static bool plan_restart(gs_restarts *r, const gs_launch_failure *f, char *what, size_t size) {
    *what = '\0';
    if (r->first->restarts == 0) return false;
    const char *no = why_not(r, f);
    if (no) {
        gs_append(what, size, "; not started again: %s", no);
        return false;
    }
    if (r->done == r->first->restarts) {
        gs_append(what, size, "; that was the last of %d restart%s", r->done, gs_s((unsigned)r->done));
        return false;
    }
    r->done++;
    r->idle = !f->stepped;
    forget_attempt(r);
    find_checkpoint(r);
    if (!make_command(r)) {
        gs_append(what, size, "; no memory to start it again");
        return false;
    }
    say_where(r, what, size);
    return true;
}

/* ---- the processes, while they run ---- */

typedef struct gs_launch_child {
    pid_t pid;            /* 0: not running */
    int status;           /* as waitpid says, once it has ended */
    double stopped_since; /* seen stopped since then, while others had ended; 0: it is not */
    /* What it was doing when others failed for lack of it: "process 4711 is stopped"; "": it does not hang. */
    char hangs[80];
} gs_launch_child;

typedef struct gs_elastic {
    double since;          /* the first loss of this generation was noticed; 0: there was none */
    int lost;              /* the child that was lost first, or has ended for wrong usage; -1: none was */
    bool misused;          /* one has ended for wrong usage, as each of the next generation would */
    bool idle;             /* the generation before made no step */
    bool over;             /* there is no other generation */
    gs_launch_place place; /* of the generations after the first */
    bool placed;
} gs_elastic;

typedef struct gs_launch_state {
    const gs_launch *launch;
    gs_launch_place place;
    double timeout; /* seconds that a rank may be stopped once others have ended */
    gs_launch_child child[GS_LAUNCH_MOST];
    int rank[GS_LAUNCH_MOST]; /* of each in the world; -1: it was let go (--elastic) */
    gs_shared *shared;
    gs_elastic elastic;
    bool misused; /* an elastic launch ended because a rank had ended for wrong usage */
    int running;
    int failed; /* the child (a seat) that failed first, or -1 */
    int hung;   /* the child (a seat) that failed by being stopped too long after others ended; or -1 */
    int failed_others; /* how many were running then, */
    bool told;         /* and whether they had to be told to end */
    int stopped_by;    /* the signal that asked us to stop, or 0 */
    double stopped_at;
    int next;       /* the next signal for those that still run: 0 none, SIGTERM or SIGKILL, */
    double next_at; /* and when it is due */
    sigset_t waited, before;
} gs_launch_state;

/* When one process has failed, the others normally find out by themselves, and each says what it has seen. So many
 * seconds until they are told to end, and then until they are killed; with --elastic, beyond the time-out, until one
 * that does not ask for the next generation is killed. */
static const double GRACE = 2;

static const double GRACE_STOP = 10; /* the same after Ctrl-C: they end after their step, and save */

static const double LOOK = 0.25; /* seconds between two looks, which gs_awake_seconds wants */

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
    const bool set = gs_launch_set_number("GRADSUM_RANK", s->rank[seat]) &&
                     gs_launch_set_number("GRADSUM_WORLD_SIZE", size) && gs_shared_set(s->shared, seat);
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

static gs_status start_one(gs_launch_state *s, const gs_launch_place *place, int seat, int size) {
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
    const gs_launch *l = s->launch;
    for (int r = 0; r < l->size; r++) s->rank[r] = l->first + r;
    for (int r = 0; r < l->size; r++) GS_TRY(start_one(s, place, r, l->world));
    return GS_OK;
}

/* ---- one that never comes ---- */

/* A rank that ends before it comes to the meeting place. Where it finds out by itself why it must fail, it leaves word
 * there (gs_comm_stay_away). One that is killed, or cannot even begin, says nothing, and the ranks of other nodes would
 * wait for it as long as the time-out is. Its launcher knows, and leaves word in its place:
 *
 *     rank 0: rank 3 failed before it joined: it was killed by signal 9 (Killed), on node rank 1 (host berta)
 */
static void describe_absent(const gs_launch_state *s, int seat, char *why, size_t size) {
    const int status = s->child[seat].status;
    struct utsname here;
    if (s->stopped_by)
        snprintf(why, size, "it was stopped by signal %d (%s)", s->stopped_by, strsignal(s->stopped_by));
    else if (WIFSIGNALED(status))
        snprintf(why, size, "it was killed by signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
    else
        snprintf(why, size, "it ended with exit status %d", WEXITSTATUS(status));
    gs_append(why, size, ", on node rank %d (host %s)", s->launch->node,
              uname(&here) == 0 ? here.nodename : "unknown");
}

static gs_rendezvous place_of(const gs_launch_state *s, int seat) {
    const gs_launch *l = s->launch;
    gs_rendezvous r = {.rank = s->rank[seat],
                       .size = l->world,
                       .timeout = s->timeout,
                       .ports = 1,
                       .nodes = l->nodes,
                       .local = -1};
    if (gs_meet_is_folder(s->place.meet))
        r.directory = s->place.meet;
    else
        snprintf(r.meet, sizeof r.meet, "%.*s", (int)sizeof r.meet - 1, s->place.meet);
    return r;
}

/* Where it has not met the ranks of other nodes yet, and has not said why it failed, these are told at their meeting
 * place; that takes 2 s at most. */
static void tell_absent(const gs_launch_state *s, int seat) {
    char why[300];
    if (s->launch->nodes == 1 || s->rank[seat] < 0 || atomic_load(&s->shared->met)) return;
    if (!s->stopped_by && gs_shared_has_told(s->shared, seat)) return;
    const gs_rendezvous r = place_of(s, seat);
    describe_absent(s, seat, why, sizeof why);
    gs_comm_stay_away(&r, GS_E_PEER, why);
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

static void note_all_hanging(gs_launch_state *s, bool only_stopped) {
    for (int r = 0; r < s->launch->size && !s->stopped_by; r++) note_hanging(&s->child[r], only_stopped);
}

/* A rank has failed. The first one to fail is to blame. But a rank that was killed is the cause even if another was
 * seen first: one that merely exits may have done so because it noticed the loss. */
static void note_failure(gs_launch_state *s, int seat) {
    bool worse =
        s->failed >= 0 && WIFEXITED(s->child[s->failed].status) && WIFSIGNALED(s->child[seat].status);
    if (s->failed < 0) s->failed_others = s->running;
    if (s->failed < 0) note_all_hanging(s, true);
    if (s->failed < 0) tell_absent(s, seat);
    if (s->failed < 0 || (worse && s->next != SIGKILL)) s->failed = seat;
    if (s->next == 0) plan(s, SIGTERM, GRACE);
}

/* "rank 2 hangs: process 4711 is stopped" */
static void append_hanging(const gs_launch_state *s, int seat, char *text, size_t size) {
    gs_append(text, size, "rank %d hangs: %s", s->rank[seat], s->child[seat].hangs);
}

/* "rank 2 was killed by signal 9 (Killed)" */
static void status_text(const gs_launch_state *s, int seat, char *text, size_t size) {
    const int status = s->child[seat].status, rank = s->rank[seat];
    if (WIFSIGNALED(status) && s->told && seat != s->failed)
        snprintf(text, size, "rank %d failed", rank); /* by its own account; the signal was the launcher's */
    else if (WIFSIGNALED(status))
        snprintf(text, size, "rank %d was killed by signal %d (%s)", rank, WTERMSIG(status),
                 strsignal(WTERMSIG(status)));
    else
        snprintf(text, size, "rank %d failed with exit status %d", rank, WEXITSTATUS(status));
}

/* ---- launch --elastic MIN:MAX: when a rank was lost, the processes that are left go on, without a checkpoint ----
 *
 *     generation 1   processes a b c d    ranks 0 1 2 3      c is killed in step 57
 *     generation 2   processes a b d      ranks 0 1 2        the others repeat it (train/elastic/carry.h)
 *                    process  e           rank  3            new, where MAX allows: it gets the state from rank 0
 *
 * The launcher waits until every process has noticed the loss (shared.h); one that hangs is killed. Then it begins the
 * next generation with those that are left, and starts new ones until there are MAX. With --exact there must be 1, 2, 4
 * or 8 of them: surplus ones are let go, and end with 0. The run ends as without --elastic if fewer than MIN are left,
 * if some have done their work already, if two generations in turn make no step, or if a rank ends for wrong usage,
 * which the next generation would repeat.
 */

#define CUT_OFF "a rank was cut off"

static bool is_elastic(const gs_launch *l) {
    return l->fewest > 0;
}

/* How many ranks the next generation has, with so many survivors and room for so many new ones; 0: too few. exact: the
 * run is. */
static int next_size(const gs_launch *l, bool exact, int survivors, int room) {
    if (survivors < l->fewest) return 0;
    int size = survivors >= l->most ? survivors : survivors + room < l->most ? survivors + room : l->most;
    while (exact && size > 0 && (size & (size - 1)) != 0) size--;
    while (exact && size > 8) size /= 2;
    return size < l->fewest ? 0 : size;
}

/* Not one that was let go. */
static bool survives(const gs_launch_state *s, int seat) {
    return s->child[seat].pid > 0 && s->rank[seat] >= 0;
}

static int count_survivors(const gs_launch_state *s) {
    int survivors = 0;
    for (int i = 0; i < s->launch->size; i++) survivors += survives(s, i);
    return survivors;
}

/* Number the ranks: the survivors in the order of before, then new ones. *more: how many are to be
 * started. */
static void number(gs_launch_state *s, int count, int *more) {
    int order[GS_LAUNCH_MOST], survivors = 0, next = 0;
    for (int i = 0; i < s->launch->size; i++) {
        int at = survivors;
        if (!survives(s, i)) continue;
        for (; at > 0 && s->rank[order[at - 1]] > s->rank[i]; at--) order[at] = order[at - 1];
        order[at] = i;
        survivors++;
    }
    for (int i = 0; i < s->launch->size; i++) s->rank[i] = -1;
    while (next < survivors && next < count) s->rank[order[next]] = next, next++;
    *more = count - next;
    for (int i = 0; i < s->launch->size && next < count; i++)
        if (s->child[i].pid == 0) s->rank[i] = next++;
}

static gs_status start_new(gs_launch_state *s, const gs_launch_place *place, int size) {
    for (int i = 0; i < s->launch->size; i++)
        if (s->child[i].pid == 0 && s->rank[i] >= 0) GS_TRY(start_one(s, place, i, size));
    return GS_OK;
}

static gs_status begin(gs_launch_state *s, int size, int *more) {
    gs_elastic *e = &s->elastic;
    if (e->placed) gs_launch_place_remove(&e->place, 0);
    gs_launch_place_forget(&s->place);
    e->placed = true;
    GS_TRY(gs_launch_place_create(s->launch, &e->place));
    number(s, size, more);
    gs_shared_begin(s->shared, size, s->rank, e->place.meet);
    return start_new(s, &e->place, size);
}

/* Who was lost first; "": nobody that is known. */
static void describe_lost(const gs_launch_state *s, char *text, size_t size) {
    const int seat = s->hung >= 0 ? s->hung : s->elastic.lost;
    *text = '\0';
    if (seat >= 0 && s->child[seat].hangs[0])
        append_hanging(s, seat, text, size);
    else if (seat >= 0)
        status_text(s, seat, text, size);
}

/* lost: who was, "": nobody that is known; size: ranks of the generation; kept: how many of the survivors go on. */
static void say_generation(const char *lost, int generation, int size, int kept, int survivors) {
    char text[500];
    snprintf(text, sizeof text, "%s; generation %d: %d go%s on", *lost ? lost : CUT_OFF, generation, kept,
             kept == 1 ? "es" : "");
    if (size > kept) gs_append(text, sizeof text, ", %d new", size - kept);
    if (kept < survivors) gs_append(text, sizeof text, ", %d let go, for --exact", survivors - kept);
    gs_launch_say("%s", text);
}

/* The launch fails, as it would have without --elastic. why NULL: nobody is left who could go on. */
static void end(gs_launch_state *s, const char *why) {
    gs_elastic *e = &s->elastic;
    char lost[200];
    e->over = true;
    s->misused = e->misused;
    atomic_store(&s->shared->over, 1);
    describe_lost(s, lost, sizeof lost);
    if (why && s->running > 0) gs_launch_say("%s; the others do not go on: %s", *lost ? lost : CUT_OFF, why);
    if (e->lost >= 0) note_failure(s, e->lost);
}

static void go_on(gs_launch_state *s) {
    gs_elastic *e = &s->elastic;
    const int survivors = count_survivors(s), size = next_size(s->launch, atomic_load(&s->shared->exact) != 0,
                                                               survivors, s->launch->size - survivors);
    const bool idle = atomic_load(&s->shared->stepped) < atomic_load(&s->shared->generation);
    const char *why = e->misused        ? "wrong usage would fail again"
                      : idle && e->idle ? "two generations in turn made no step"
                      : size == 0       ? "they are too few"
                                        : NULL;
    char text[200];
    int more = 0;
    if (why) {
        end(s, why);
        return;
    }
    describe_lost(s, text, sizeof text);
    const gs_status status = begin(s, size, &more);
    if (status == GS_OK)
        say_generation(text, atomic_load(&s->shared->generation), size, size - more, survivors);
    else
        gs_launch_say("%s", *text ? text : CUT_OFF);
    e->idle = idle;
    e->since = 0;
    const int lost = e->lost;
    e->lost = -1;
    if (status == GS_OK) return;
    gs_launch_say("%s", gs_message());
    e->lost = lost >= 0 ? lost : 0;
    end(s, NULL);
}

/* This child has ended in another way than with 0. Others may merely have lost one that has ended for wrong usage: that
 * one is the cause, even if it was seen later. */
static void lose(gs_launch_state *s, int seat) {
    gs_elastic *e = &s->elastic;
    const int status = s->child[seat].status;
    const bool misused = WIFEXITED(status) && WEXITSTATUS(status) == GS_EXIT_USAGE;
    if (s->rank[seat] < 0) return; /* it was let go */
    if (e->over || s->stopped_by) {
        note_failure(s, seat);
        return;
    }
    if (e->lost < 0) tell_absent(s, seat);
    if (e->lost < 0 || (misused && !e->misused)) e->lost = seat;
    e->misused |= misused;
    if (e->since <= 0) e->since = gs_awake_seconds();
    if (s->running == 0) end(s, NULL); /* nobody is left */
}

/* Is there a process that is still to ask? One that hangs is killed. */
static bool wait_for_all(gs_launch_state *s) {
    const bool late = gs_awake_seconds() - s->elastic.since > s->timeout + GRACE;
    bool waits = false;
    for (int i = 0; i < s->launch->size; i++) {
        gs_launch_child *c = &s->child[i];
        if (c->pid <= 0 || gs_shared_asks(s->shared, i)) continue;
        waits = true;
        if (!late && !gs_process_is_stopped(c->pid)) continue;
        if (s->elastic.lost < 0 && s->rank[i] >= 0) s->elastic.lost = i;
        note_hanging(c, false);
        kill(c->pid, SIGKILL);
    }
    return waits;
}

/* Have some processes ended with 0, their work being done? */
static bool is_ending(const gs_launch_state *s) {
    for (int i = 0; i < s->launch->size; i++)
        if (s->child[i].pid == 0 && s->rank[i] >= 0 && s->child[i].status == 0) return true;
    return false;
}

static int count_asking(const gs_launch_state *s) {
    int asking = 0;
    for (int i = 0; i < s->launch->size; i++) asking += survives(s, i) && gs_shared_asks(s->shared, i);
    return asking;
}

/* No process is left. If one was lost at the end, when others had done their work, that is a failure. */
static void close_elastic(gs_launch_state *s) {
    const gs_elastic *e = &s->elastic;
    if (e->lost >= 0 && s->failed < 0 && !s->stopped_by) end(s, NULL);
}

/* Now and then. Is a generation about to begin, so that this should be called again soon? */
static bool look_at_generation(gs_launch_state *s) {
    gs_elastic *e = &s->elastic;
    if (e->over || s->stopped_by || s->failed >= 0 || s->running == 0) return false;
    if (count_asking(s) == 0 && e->lost < 0) return false;
    if (e->since <= 0) e->since = gs_awake_seconds();
    if (is_ending(s)) {
        end(s, "some have done their work");
        return false;
    }
    if (wait_for_all(s)) return true;
    go_on(s);
    return true;
}

/* ---- watching: stopped and hanging processes, signals, the loop ---- */

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

/* Ranks that have ended wait for nobody. So only the launcher notices a rank that is stopped while it saves or ends.
 * */
static void look_for_hanging(gs_launch_state *s) {
    const double now = gs_awake_seconds();
    if (s->failed >= 0 || s->stopped_by || s->running == s->launch->size) return;
    if (is_elastic(s->launch) && !is_ending(s)) return; /* the others notice it */
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
            if (status != 0 && is_elastic(s->launch))
                lose(s, r);
            else if (status != 0)
                note_failure(s, r);
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
        if (is_elastic(s->launch)) most = look_at_generation(s) ? 0.01 : 0.05;
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

/* ---- how it has ended: what is said of it, and its exit status ---- */

enum { SAID = 2500 /* bytes of what is said of a failure */ };

/* "rank 2 hangs: process 4711 is stopped; rank 0: ..." */
static void append_why(const gs_launch_state *s, const gs_launch_why *why, char *text, size_t size) {
    for (int r = 0; r < s->launch->size; r++) {
        if (!s->child[r].hangs[0]) continue;
        append_hanging(s, r, text, size);
        gs_append(text, size, "; ");
    }
    gs_append(text, size, "%s", why->message);
}

/* Why it failed. A rank that was killed, or failed for a reason of its own, is to blame. If all ranks merely lost
 * another one, the message of the first says which. */
static void describe_failure(const gs_launch_state *s, char *text, size_t size) {
    const gs_launch_why *why = gs_shared_first(s->shared);
    *text = '\0';
    if (s->hung >= 0) {
        append_hanging(s, s->hung, text, size);
        if (s->failed_others > 0)
            gs_append(text, size, "; ended the other %d that still ran", s->failed_others);
        return;
    }
    const bool told = why && WIFEXITED(s->child[s->failed].status);
    if (told && why->code == GS_E_PEER)
        append_why(s, why, text, size);
    else
        status_text(s, told ? why->seat : s->failed, text, size);
    if (s->failed_others > 0)
        gs_append(text, size, s->told ? "; ended the other %d" : "; the other %d ended too",
                  s->failed_others);
}

static gs_launch_failure failure_of(const gs_launch_state *s) {
    const gs_launch_why *why = gs_shared_first(s->shared);
    const bool killed = s->hung >= 0 || WIFSIGNALED(s->child[s->failed].status);
    return (gs_launch_failure){.lost = killed || (why && why->code == GS_E_PEER),
                               .code = why ? why->code : GS_OK,
                               .stepped = atomic_load(&s->shared->stepped) > 0};
}

/* The last line of the attempt, and whether there is another. */
static bool say_what_follows(const gs_launch_state *s, gs_restarts *restarts) {
    const gs_launch_failure failure = failure_of(s);
    char text[SAID], what[1400];
    const bool again = plan_restart(restarts, &failure, what, sizeof what);
    describe_failure(s, text, sizeof text);
    gs_launch_say("%s%s", text, what);
    return again;
}

/* The signal at which a rank ended in order, or 0: the shell's convention for it is 128 + N (SIGPIPE: see output.c).
 * */
static int stopped_itself(const gs_launch_state *s) {
    for (int r = 0; r < s->launch->size && !s->told; r++) {
        int status = s->child[r].status;
        if (WIFEXITED(status) && WEXITSTATUS(status) > 128) return WEXITSTATUS(status) - 128;
    }
    return 0;
}

/* "stopped by signal 15 (Terminated); rank 2 hangs: process 4711 is stopped", where such ones have been killed. */
static int say_stopped(const gs_launch_state *s, int number) {
    char text[SAID] = "";
    for (int r = 0; r < s->launch->size; r++) {
        if (!s->child[r].hangs[0]) continue;
        gs_append(text, sizeof text, "; ");
        append_hanging(s, r, text, sizeof text);
    }
    gs_launch_say("stopped by signal %d (%s)%s", number, strsignal(number), text);
    return 128 + number;
}

/* The exit status, and why it is not 0; *again: there is another attempt instead. */
static int outcome(gs_launch_state *s, gs_restarts *restarts, bool *again) {
    int usage = 0, ended = 0; /* ended by us before they could say the same */
    for (int r = 0; r < s->launch->size; r++) {
        int status = s->child[r].status;
        usage += WIFEXITED(status) && WEXITSTATUS(status) == GS_EXIT_USAGE;
        ended += s->told && WIFSIGNALED(status);
    }
    if (s->failed < 0) return GS_EXIT_OK;
    int signal_number = s->stopped_by ? s->stopped_by : stopped_itself(s);
    if (signal_number) return say_stopped(s, signal_number);
    const int first = s->child[s->failed].status; /* nobody reads its output any more, as behind `| head` */
    if (WIFSIGNALED(first) && WTERMSIG(first) == SIGPIPE) return 128 + SIGPIPE;
    if (usage < s->launch->size) {
        const bool misused = s->misused || (usage > 0 && usage + ended == s->launch->size);
        *again = say_what_follows(s, restarts);
        return misused ? GS_EXIT_USAGE : GS_EXIT_FAILED;
    }
    if (usage > 1) gs_launch_say("all %d processes failed with this error", usage);
    return GS_EXIT_USAGE;
}

/* ---- the whole ---- */

/* Start all processes and wait for them. What the state holds of an earlier attempt is forgotten, but for the
 * signals, which stay blocked between two: one that comes then is taken by the next. */
static int attempt(gs_launch_state *s, gs_restarts *restarts, bool *again) {
    const gs_launch *launch = &restarts->attempt;
    const bool first = !s->launch;
    *s = (gs_launch_state){.launch = launch,
                           .failed = -1,
                           .hung = -1,
                           .elastic = {.lost = -1},
                           .timeout = gs_launch_timeout(launch),
                           .shared = s->shared,
                           .waited = s->waited,
                           .before = s->before};
    gs_shared_clear(s->shared);
    gs_status status = gs_launch_place_create(launch, &s->place);
    if (status == GS_OK) {
        if (first) take_signals(s);
        status = start(s, &s->place);
        if (status == GS_OK) status = gs_launch_place_open(&s->place);
        if (status != GS_OK) {
            s->elastic.over = true;
            atomic_store(&s->shared->over, 1);
            send_all(s, SIGKILL);
        }
        watch(s);
        close_elastic(s);
    }
    const bool awaited = launch->nodes > 1 && s->failed >= 0 && !s->stopped_by;
    gs_launch_place_remove(&s->place, awaited ? launch->world : 0);
    if (s->elastic.placed) gs_launch_place_remove(&s->elastic.place, 0);
    if (status == GS_OK) return outcome(s, restarts, again);
    gs_launch_say("%s", gs_message());
    return GS_EXIT_FAILED;
}

int gs_launch_run(const gs_launch *launch) {
    gs_launch_state s = {.shared = gs_shared_create(is_elastic(launch))};
    gs_restarts restarts = begin_restarts(launch);
    int exit_status = GS_EXIT_FAILED;
    bool again = s.shared != NULL;
    if (!again) gs_launch_say("no memory that the processes could share");
    while (again) {
        again = false;
        exit_status = attempt(&s, &restarts, &again);
    }
    forget_attempt(&restarts);
    gs_shared_free(s.shared);
    return exit_status;
}
