/* Before the libraries begin, and just after.
 *
 * OpenBLAS maps a buffer for each of its threads when it is loaded (newer versions: for the program's first thread
 * too), and where mmap fails it tries again forever. Under a limit on the address space (ulimit -v, ulimit -d) the
 * program would hang before main(). So what is here runs before the functions with which libraries begin: it starts the
 * program again without OpenBLAS's own threads, which are never used (cpu/pool.h). If the libraries have not begun
 * after some seconds of computing, there was too little for one buffer, and a sentence says so. What is mapped later is
 * seen to in cpu/openblas_memory.c.
 *
 * Where it cannot start those threads (ulimit -u) it raises SIGINT, as if the user had pressed Ctrl-C. Then too the
 * program starts again without them.
 *
 * UCX, which newer versions of Open MPI load with the program, catches SIGHUP: it would no longer end the program, and
 * nohup could not be seen. So the signals are set back to what they were.
 *
 * Not with sanitizers, which are not ready that early, and need more address space than any limit gives. */
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED
#endif
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED
#endif

#ifndef SANITIZED
enum { SECONDS = 2 /* of computing; the libraries need 0.05 */ };

static const int signals[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM}; /* SIGINT: see interrupted() */
enum { SIGNALS = sizeof signals / sizeof *signals };
static struct sigaction before[SIGNALS];

static bool begun, waiting;
static char sentence[240];

static void give_up(int signal_number) {
    (void)signal_number;
    if (write(STDERR_FILENO, sentence, strlen(sentence)) < 0) _exit(2);
    _exit(1);
}

/* The limit's option of the shell's ulimit, and *bytes; NULL: there is none. */
static const char *limit_of_memory(unsigned long long *bytes) {
    struct rlimit limit;
    const int kinds[] = {RLIMIT_AS, RLIMIT_DATA};
    for (int i = 0; i < 2; i++) {
        if (getrlimit(kinds[i], &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) continue;
        *bytes = limit.rlim_cur;
        return i == 0 ? "-v" : "-d";
    }
    return NULL;
}

/* Returns if that is not needed, or cannot be done. getenv and setenv do not work yet. */
static void start_without_threads(char **argv, char **environment) {
    static char name[] = "OPENBLAS_NUM_THREADS=", one[] = "OPENBLAS_NUM_THREADS=1";
    size_t count = 0;
    while (environment[count]) {
        if (strcmp(environment[count], one) == 0) return; /* this is the second start */
        count++;
    }
    char **changed =
        mmap(NULL, (count + 2) * sizeof *changed, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (changed == MAP_FAILED) return;
    size_t kept = 0;
    for (size_t i = 0; i < count; i++)
        if (strncmp(environment[i], name, sizeof name - 1) != 0) changed[kept++] = environment[i];
    changed[kept++] = one;
    changed[kept] = NULL;
    execve("/proc/self/exe", argv, changed);
}

static char **our_argv, **our_environment;

/* SIGINT while libraries begin. One that this process has sent to itself is OpenBLAS's; others are as they were. */
static void interrupted(int number, siginfo_t *info, void *context) {
    (void)context;
    const struct sigaction *was = &before[1];
    const bool own = info->si_code == SI_TKILL && info->si_pid == getpid();
    if (!own && was->sa_handler == SIG_IGN) return;
    sigaction(number, was, NULL);
    if (!own) {
        raise(number);
        return;
    }
    struct rlimit limit = {0};
    getrlimit(RLIMIT_NPROC, &limit);
    snprintf(
        sentence, sizeof sentence,
        "gradsum: no room for OpenBLAS's threads (ulimit -u %lld); continuing without them: none is needed\n",
        (long long)limit.rlim_cur); /* -1: no limit */
    if (write(STDERR_FILENO, sentence, strlen(sentence)) < 0) _exit(1);
    start_without_threads(our_argv, our_environment);
    _exit(1);
}

static void before_libraries(int argc, char **argv, char **environment) {
    unsigned long long bytes;
    const char *limit = limit_of_memory(&bytes);
    (void)argc;
    for (int i = 0; i < SIGNALS; i++) sigaction(signals[i], NULL, &before[i]);
    begun = true;
    our_argv = argv;
    our_environment = environment;
    sigaction(SIGINT, &(struct sigaction){.sa_sigaction = interrupted, .sa_flags = SA_SIGINFO | SA_NODEFER},
              NULL);
    if (!limit) return;
    start_without_threads(argv, environment);
    snprintf(
        sentence, sizeof sentence,
        "gradsum: OpenBLAS needs 128 MiB of address space when it is loaded, which must be free: the limit "
        "for this process is %llu MiB (ulimit %s)\n",
        bytes >> 20, limit);
    waiting = true;
    signal(SIGPROF, give_up);
    setitimer(ITIMER_PROF, &(struct itimerval){.it_value.tv_sec = SECONDS}, NULL);
}

__attribute__((section(".preinit_array"), used)) static void (*const first)(int, char **,
                                                                            char **) = before_libraries;

/* The program's own functions of this kind come after those of all libraries. A C library other than glibc may not have
 * called the one before. */
__attribute__((constructor)) static void after_libraries(void) {
    if (!begun) return;
    for (int i = 0; i < SIGNALS; i++) sigaction(signals[i], &before[i], NULL);
    if (!waiting) return;
    setitimer(ITIMER_PROF, &(struct itimerval){0}, NULL);
    signal(SIGPROF, SIG_DFL);
}
#endif
