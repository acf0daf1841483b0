#include "contain.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include "core/clock.h"

enum {
    AT_ONCE = 8,             /* maximum number of commands running at the same time */
    KEPT = 64 << 10,         /* bytes of output that are kept: the last ones */
    LARGEST_FILE = 64 << 20, /* bytes that a command may write to one file */
    POLL_MS = 20
};

typedef struct running {
    lab_job *job; /* NULL: this slot is free */
    pid_t pid;
    int output, verdict; /* our ends; -1: closed */
    size_t kept, printed;
    char word[LAB_WORD];
    double started, looked; /* when it started, and when its times were last checked */
    lab_time time;
    bool killed; /* job->end says why */
} running;

/* ---- in the new process ---- */

static void limit(int resource, rlim_t soft, rlim_t hard) {
    struct rlimit l = {soft, hard};
    setrlimit(resource, &l);
}

static void become(const lab_job *job, int output, int verdict, pid_t parent) {
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(127);
    int nothing = open("/dev/null", O_RDONLY);
    if (nothing < 0 || dup2(nothing, 0) < 0 || dup2(output, 1) < 0 || dup2(output, 2) < 0) _exit(127);
    rlim_t seconds = (rlim_t)(job->limits.seconds + 1);
    limit(RLIMIT_CPU, seconds, seconds + 1); /* sends SIGXCPU */
    limit(RLIMIT_FSIZE, LARGEST_FILE, LARGEST_FILE);
    limit(RLIMIT_CORE, 0, 0);
    if (!job->judged) limit(RLIMIT_AS, job->limits.memory, job->limits.memory); /* children inherit it */
    for (char *const *e = job->environment; e && *e; e++) putenv(*e);
    char text[16];
    close_range(3, ~0U, CLOSE_RANGE_CLOEXEC); /* it inherits no open files */
    if (job->judged) {                        /* except the socket for its verdict */
        fcntl(verdict, F_SETFD, 0);
        snprintf(text, sizeof text, "%d", verdict);
        setenv(LAB_VERDICT_FD, text, 1);
    }
    execvp(job->command[0], job->command);
    fprintf(stderr, "cannot start %s: %s\n", job->command[0], strerror(errno));
    _exit(127);
}

/* ---- starting and ending ---- */

static void shut(int *fd) {
    if (*fd >= 0) close(*fd);
    *fd = -1;
}

static gs_status start(running *r, lab_job *job) {
    int output[2] = {-1, -1}, verdict[2] = {-1, -1};
    *r = (running){.job = job, .output = -1, .verdict = -1, .started = gs_seconds()};
    r->looked = r->started;
    job->output = calloc(1, KEPT + 1);
    pid_t parent = getpid(), pid = -1;
    bool ready = job->output && pipe2(output, O_CLOEXEC) == 0 && fcntl(output[0], F_SETFL, O_NONBLOCK) == 0 &&
                 socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, verdict) == 0 &&
                 getrandom(r->word, sizeof r->word, 0) == sizeof r->word &&
                 send(verdict[0], r->word, sizeof r->word, MSG_NOSIGNAL) == sizeof r->word;
    if (ready) pid = fork();
    if (pid == 0) become(job, output[1], verdict[1], parent);
    int error = errno;
    shut(&output[1]);
    shut(&verdict[1]);
    r->pid = pid;
    r->output = output[0];
    r->verdict = verdict[0];
    if (pid > 0) {
        setpgid(pid, pid); /* in both processes, because either may run first */
        return GS_OK;
    }
    shut(&r->output);
    shut(&r->verdict);
    r->job = NULL;
    return gs_fail(GS_E_MEMORY, "cannot start %s: %s", job->command[0], strerror(error));
}

static void stop(running *r, lab_end why) {
    if (!r->killed) r->job->end = why;
    r->killed = true;
    kill(-r->pid, SIGKILL);
}

/* Processes that left their group become our children when their parents end (PR_SET_CHILD_SUBREAPER). */
static void end_orphans(void) {
    char path[64];
    snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
    for (int again = 0; again < 1000; again++) {
        FILE *f = fopen(path, "r");
        int pid, count = 0;
        while (f && fscanf(f, "%d", &pid) == 1 && ++count) kill(pid, SIGKILL);
        if (f) fclose(f);
        if (count == 0) return;
        while (waitpid(-1, NULL, WNOHANG) > 0) {
        }
        usleep(1000);
    }
}

/* ---- watching ---- */

/* Keeps the last KEPT bytes, because the important part of a crash report comes at the end. */
static void keep(running *r, const char *text, size_t count) {
    char *kept = r->job->output;
    r->printed += count;
    if (count > KEPT) text += count - KEPT, count = KEPT;
    if (r->kept + count > KEPT) {
        size_t drop = r->kept + count - KEPT;
        memmove(kept, kept + drop, r->kept - drop);
        r->kept -= drop;
    }
    memcpy(kept + r->kept, text, count);
    r->kept += count;
    kept[r->kept] = '\0';
}

/* Reads only a few buffers at a time: a pipe that is never empty must not keep this process from its time checks. */
static void read_output(running *r) {
    char text[KEPT / 4];
    for (int i = 0; i < 8 && r->output >= 0; i++) {
        ssize_t n = read(r->output, text, sizeof text);
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) break;
        if (n <= 0) shut(&r->output);
        if (n > 0) keep(r, text, (size_t)n);
    }
    if (r->printed > r->job->limits.output) stop(r, LAB_TOO_TALKATIVE);
}

static void read_verdict(running *r) {
    lab_verdict v;
    if (r->verdict < 0) return;
    ssize_t n = recv(r->verdict, &v, sizeof v, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (n == sizeof v && memcmp(v.word, r->word, sizeof v.word) == 0) {
        v.message[sizeof v.message - 1] = v.blank[sizeof v.blank - 1] = '\0';
        v.called[sizeof v.called - 1] = v.hint[sizeof v.hint - 1] = '\0';
        r->job->verdict = v;
        r->job->has_verdict = true;
    }
    shut(&r->verdict); /* only the first verdict counts */
}

/* The resources that a process uses, including all processes that it started. */
typedef struct use {
    size_t memory; /* bytes */
    double cpu;    /* seconds */
    bool awake;    /* a thread is computing, or waiting for a processor or a disk */
} use;

static void add_use(pid_t pid, int depth, use *u);

/* Adds the use of one thread's children. */
static void add_children(const char *children, int depth, use *u) {
    int child;
    FILE *f = fopen(children, "r");
    while (f && fscanf(f, "%d", &child) == 1) add_use(child, depth, u);
    if (f) fclose(f);
}

/* The text after the name in a /proc "stat" file; NULL: the file can no longer be read. */
static const char *read_stat(const char *path, char *line, int size) {
    FILE *f = fopen(path, "r");
    const char *name_end = f && fgets(line, size, f) ? strrchr(line, ')') : NULL;
    if (f) fclose(f);
    return name_end;
}

static void add_thread(pid_t pid, const char *thread, int depth, use *u) {
    char path[64], line[1024], state;
    snprintf(path, sizeof path, "/proc/%d/task/%.16s/stat", (int)pid, thread);
    const char *stat = read_stat(path, line, sizeof line);
    if (stat && sscanf(stat, ") %c", &state) == 1) u->awake = u->awake || state == 'R' || state == 'D';
    snprintf(path, sizeof path, "/proc/%d/task/%.16s/children", (int)pid, thread);
    add_children(path, depth + 1, u);
}

/* A process that can no longer be read counts as nothing; one nested too deeply counts as too large. */
static void add_use(pid_t pid, int depth, use *u) {
    enum { DEEPEST = 64 };
    if (depth > DEEPEST) {
        u->memory = SIZE_MAX / 2;
        return;
    }
    char path[64], line[1024] = "";
    unsigned long user, kernel, total = 0, resident = 0;
    long children_user, children_kernel;
    snprintf(path, sizeof path, "/proc/%d/statm", (int)pid);
    FILE *f = fopen(path, "r");
    if (f && fscanf(f, "%lu %lu", &total, &resident) == 2)
        u->memory += resident * (size_t)sysconf(_SC_PAGESIZE);
    if (f) fclose(f);
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    const char *stat = read_stat(path, line, sizeof line);
    if (stat && sscanf(stat, ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu %ld %ld", &user, &kernel,
                       &children_user, &children_kernel) == 4)
        u->cpu += (double)(user + kernel + (unsigned long)children_user + (unsigned long)children_kernel) /
                  (double)sysconf(_SC_CLK_TCK);
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *threads = opendir(path);
    for (const struct dirent *e; threads && (e = readdir(threads));)
        if (*e->d_name != '.') add_thread(pid, e->d_name, depth, u);
    if (threads) closedir(threads);
}

bool lab_is_too_long(const lab_limits *limits, const lab_time *t) {
    return t->cpu > limits->seconds || t->asleep > limits->seconds ||
           t->clock > LAB_BY_THE_CLOCK * limits->seconds;
}

/* Each look is a snapshot, and may find two processes that talk to each other both asleep. Therefore processes count as
 * asleep only while no look finds a thread awake and no CPU time is used. Of a long gap between looks only a part
 * counts, because this process itself was waiting for a processor. */
static void look_at_time(running *r, const use *u) {
    const double now = gs_seconds(), passed = fmin(now - r->looked, 5e-3 * POLL_MS);
    const bool slept = !u->awake && u->cpu == r->time.cpu;
    r->time = (lab_time){u->cpu, slept ? r->time.asleep + passed : 0, now - r->started};
    r->looked = now;
    r->job->seconds = r->time.clock;
    if (!lab_is_too_long(&r->job->limits, &r->time) || r->killed) return;
    r->job->slept = r->time.asleep > r->job->limits.seconds;
    stop(r, LAB_TOO_LONG);
}

/* Returns true once the command has ended. */
static bool watch(running *r) {
    lab_job *job = r->job;
    read_output(r);
    if (job->judged) read_verdict(r);
    use u = {0};
    add_use(r->pid, 0, &u);
    look_at_time(r, &u);
    if (u.memory > job->limits.memory) stop(r, LAB_TOO_LARGE);
    int status;
    pid_t ended = waitpid(r->pid, &status, WNOHANG);
    if (ended == 0 || (ended < 0 && errno == EINTR)) return false;
    kill(-r->pid, SIGKILL); /* all leftover processes */
    read_output(r);
    if (job->judged) read_verdict(r);
    if (!r->killed) {
        bool signalled = WIFSIGNALED(status);
        job->end = signalled ? LAB_SIGNAL : LAB_EXITED;
        job->code = signalled ? WTERMSIG(status) : WEXITSTATUS(status);
        if (signalled && job->code == SIGXCPU) job->end = LAB_TOO_LONG; /* CPU time of all its threads */
    }
    bool hand_in = job->has_verdict && job->verdict.ended;
    if (hand_in && job->verdict.signal == SIGXCPU) job->end = LAB_TOO_LONG;
    shut(&r->output);
    shut(&r->verdict);
    r->job = NULL;
    return true;
}

static void wait_a_moment(const running *r) {
    struct pollfd fds[2 * AT_ONCE];
    nfds_t n = 0;
    for (int i = 0; i < AT_ONCE; i++) {
        if (!r[i].job) continue;
        if (r[i].output >= 0) fds[n++] = (struct pollfd){.fd = r[i].output, .events = POLLIN};
        if (r[i].job->judged && r[i].verdict >= 0)
            fds[n++] = (struct pollfd){.fd = r[i].verdict, .events = POLLIN};
    }
    poll(fds, n, POLL_MS);
}

gs_status lab_contain(lab_job *jobs, int count, int at_once) {
    running r[AT_ONCE] = {0};
    int next = 0, active = 0;
    gs_status status = GS_OK;
    if (at_once < 1) at_once = 1;
    if (at_once > AT_ONCE) at_once = AT_ONCE;
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    while (active > 0 || (status == GS_OK && next < count)) {
        for (int i = 0; i < at_once && status == GS_OK && next < count; i++) {
            if (r[i].job) continue;
            status = start(&r[i], &jobs[next++]);
            active += status == GS_OK;
        }
        if (active > 0) wait_a_moment(r);
        for (int i = 0; i < at_once; i++)
            if (r[i].job && watch(&r[i])) active--;
    }
    end_orphans();
    return status;
}

void lab_job_free(lab_job *job) {
    free(job->output);
    job->output = NULL;
}
