/* The program of a lab: gradsum's command line with the student's parts in it, and `grade-task N.M`. */
#include "lab.h"
#include "io/file.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "verdict.h"

/* src/cli/main.c, whose main has this name here. */
int lab_gradsum_main(int argc, char **argv);

/* ---- sanitizers ---- */

const char *__asan_default_options(void);
const char *__ubsan_default_options(void);
const char *__lsan_default_suppressions(void);
int __lsan_do_recoverable_leak_check(void); /* <sanitizer/lsan_interface.h>, which clang-tidy does not find */

/* Leaks are looked for when the check is through and not at the end, when other threads still run. LLVM, inside PoCL,
 * installs a signal stack of its own in each thread, which AddressSanitizer's would collide with. */
const char *__asan_default_options(void) {
    return "detect_leaks=1:leak_check_at_exit=0:use_sigaltstack=0:allocator_may_return_null=1:"
           "max_allocation_size_mb=2048:print_legend=0";
}

const char *__ubsan_default_options(void) {
    return "print_stacktrace=1";
}

/* PoCL keeps some of what its compiler made until the process ends. */
const char *__lsan_default_suppressions(void) {
    return "leak:libpocl.so\nleak:libLLVM\nleak:libclang\nleak:liboclgrind\n";
}

/* ---- the verdict ---- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char blank[sizeof((lab_verdict *)0)->blank];

static int listener = -1;   /* the grader's socket, or -1 */
static lab_verdict verdict; /* begins with the grader's word */

/* Ends the process: nothing that atexit() or a destructor does can change the verdict any more. */
static _Noreturn void send_verdict(void) {
    ssize_t sent = send(listener, &verdict, sizeof verdict, MSG_NOSIGNAL);
    _exit(sent == sizeof verdict ? 0 : 1);
}

/* ---- exit() ---- */

/* The linker's --wrap=exit: the C library's exit(), and what is called in its place. */
_Noreturn void __real_exit(int status);
_Noreturn void __wrap_exit(int status);

static bool checking; /* set before there are other threads */

/* Ranks are threads, and a second exit() while the first is under way is undefined (C11, 7.22.4.4): now and then it
 * crashes, and the grader would speak of a bad pointer. So during a check exit() ends the process at once. */
_Noreturn void __wrap_exit(int status) {
    if (!checking) __real_exit(status);
    fflush(stdout);
    _exit(status);
}

/* ---- blanks ---- */

gs_status lab_blank(const char *task) {
    pthread_mutex_lock(&lock);
    if (!*blank) snprintf(blank, sizeof blank, "%s", task);
    if (listener >= 0) {
        memcpy(verdict.blank, blank, sizeof blank);
        send_verdict(); /* now, before the function that is not written makes something crash */
    }
    pthread_mutex_unlock(&lock);
    return gs_fail(GS_E_USAGE, "not written yet: task %s", task);
}

/* A kernel cannot call back: a blank of lab.cl is found by its text, lab_blank(4.2). */
static void look_for_blank_in_kernels(const char *task) {
    char path[4200], line[1024], wanted[32];
    const char *folder = getenv("GRADSUM_KERNELS");
    snprintf(path, sizeof path, "%s/lab.cl", folder ? folder : "");
    snprintf(wanted, sizeof wanted, "lab_blank(%s)", task);
    FILE *f = NULL;
    uint64_t size;
    if (!folder || gs_file_open_stream(path, &f, &size) != GS_OK) return;
    while (fgets(line, sizeof line, f))
        if (strstr(line, wanted)) lab_blank(task);
    fclose(f);
}

/* ---- one task ---- */

static const lab_task *find_task(const char *number) {
    for (const lab_task *t = lab_tasks; t->number; t++)
        if (strcmp(t->number, number) == 0) return t;
    return NULL;
}

/* Take the grader's word. Without one a person has started this by hand. */
static void find_listener(void) {
    const char *text = getenv(LAB_VERDICT_FD);
    int fd = text ? atoi(text) : -1;
    unsetenv(LAB_VERDICT_FD);
    if (fd >= 0 && read(fd, verdict.word, sizeof verdict.word) == sizeof verdict.word) listener = fd;
}

static int grade_task(const char *number) {
    const lab_task *task = find_task(number);
    find_listener();
    if (!task) {
        fprintf(stderr, "grade-task: this lab has no task '%s'; it has:", number);
        for (const lab_task *t = lab_tasks; t->number; t++) fprintf(stderr, " %s", t->number);
        fprintf(stderr, "\n");
        return 2;
    }
    look_for_blank_in_kernels(number);
    checking = true;
    verdict.passed = task->check() == GS_OK;
    if (!verdict.passed) snprintf(verdict.message, sizeof verdict.message, "%s", gs_message());
    if (verdict.passed) verdict.leaks = __lsan_do_recoverable_leak_check() != 0;
    if (listener >= 0) send_verdict();
    if (*blank) snprintf(verdict.message, sizeof verdict.message, "not written yet: task %s", blank);
    bool passed = verdict.passed && !verdict.leaks && !*blank;
    printf("%s: %s%s%s\n", number, passed ? "passed" : "failed", *verdict.message ? ": " : "",
           verdict.message);
    return passed ? 0 : 1;
}

/* The kernels of a lab with a lab.cl are in the folder beside its program. */
static void choose_kernels(void) {
    char path[4200];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 20);
    if (length <= 0) return;
    path[length] = '\0';
    char *slash = strrchr(path, '/');
    strcpy(slash, "/cl/lab.cl");
    if (access(path, R_OK) != 0) return;
    *strrchr(path, '/') = '\0';
    setenv("GRADSUM_KERNELS", path, 0);
}

__attribute__((weak)) void lab_install(void) {}

int main(int argc, char **argv) {
    gs_cpu_choose_kernels(argv);
    gs_cl_choose_settings(true);
    choose_kernels();
    lab_install();
    if (argc == 3 && strcmp(argv[1], "grade-task") == 0) return grade_task(argv[2]);
    return lab_gradsum_main(argc, argv);
}
