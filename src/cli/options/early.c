/* Code that runs before the libraries' constructors, and just after them.
 *
 * When OpenBLAS is loaded, it maps a buffer for each of its threads (newer versions: also for the program's first
 * thread); if mmap fails, it retries forever. Under a limit on the address space (ulimit -v, ulimit -d) the program
 * would therefore hang before main(). This code restarts the program without OpenBLAS's own threads, which are never
 * used (cpu/pool.h). If the libraries are still not loaded after some seconds of CPU time, there is too little memory
 * for even one buffer, and a message says so. cpu/openblas_memory.c handles later mappings.
 *
 * If OpenBLAS cannot start its threads (ulimit -u), it raises SIGINT, like Ctrl-C. Then the program restarts, too.
 *
 * UCX, which newer versions of Open MPI load with the program, installs a SIGHUP handler. SIGHUP would then no longer
 * end the program, and we could not tell that nohup had set it to be ignored. Therefore the signals' original handling
 * is restored.
 *
 * With sanitizers none of this happens: they are not ready that early, and exceed any limit on the address space. */
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
enum { SECONDS = 2 /* of CPU time; loading the libraries takes 0.05 */ };

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

/* Returns the ulimit option that limits memory, and sets *bytes; NULL: there is no limit. */
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

/* Returns only if a restart is unnecessary or impossible. getenv and setenv do not work yet. */
static void start_without_threads(char **argv, char **environment) {
    static char name[] = "OPENBLAS_NUM_THREADS=", one[] = "OPENBLAS_NUM_THREADS=1";
    size_t count = 0;
    while (environment[count]) {
        if (strcmp(environment[count], one) == 0) return; /* this is already the second start */
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

/* Handles SIGINT while libraries load. If this process sent it, OpenBLAS raised it; any other SIGINT acts as before. */
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

/* The program's constructors run after those of all libraries. C libraries other than glibc might not call
 * before_libraries. */
__attribute__((constructor)) static void after_libraries(void) {
    if (!begun) return;
    for (int i = 0; i < SIGNALS; i++) sigaction(signals[i], &before[i], NULL);
    if (!waiting) return;
    setitimer(ITIMER_PROF, &(struct itimerval){0}, NULL);
    signal(SIGPROF, SIG_DFL);
}
#endif
