/* The program of a hand-in: what a student wrote, and a loop that calls it for the checker (remote/remote.h). */
#include "lab.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "remote/wire.h"

static lab_wire wire = {.fd = LAB_HAND_IN_FD};

lab_wire *lab_wire_here(void) {
    return &wire;
}

_Noreturn void lab_wire_lost(lab_wire *w, const char *why) {
    (void)w;
    fprintf(stderr, "the checker is gone, or: %s\n", why);
    _exit(1);
}

void lab_wire_blank(const char *task) {
    (void)task;
}

/* The checker ends with this, and so does everything else. */
gs_status lab_blank(const char *task) {
    const char tag = LAB_BLANK;
    char text[LAB_BLANK_TEXT] = "";
    snprintf(text, sizeof text, "%s", task);
    lab_wire_write(&wire, &tag, 1);
    lab_wire_write(&wire, text, sizeof text);
    lab_wire_flush(&wire);
    for (;;) pause();
}

/* ---- sanitizers ---- */

const char *__asan_default_options(void);
const char *__ubsan_default_options(void);
const char *__lsan_default_suppressions(void);

/* Leaks are looked for when the check is through (remote/common.c). LLVM, inside PoCL, installs a signal stack of its
 * own in each thread, which AddressSanitizer's would collide with. It frees so much that memory which waits to be used
 * again (256 MB by default), counted twice while LeakSanitizer looks on from a second process, would be too much. */
const char *__asan_default_options(void) {
    return "detect_leaks=1:leak_check_at_exit=0:use_sigaltstack=0:allocator_may_return_null=1:"
           "max_allocation_size_mb=2048:quarantine_size_mb=64:print_legend=0";
}

const char *__ubsan_default_options(void) {
    return "print_stacktrace=1";
}

/* PoCL keeps some of what its compiler made until the process ends. */
const char *__lsan_default_suppressions(void) {
    return "leak:libpocl.so\nleak:libLLVM\nleak:libclang\nleak:liboclgrind\n";
}

/* ---- the kernels of a lab with a lab.cl, in the folder beside its program ---- */

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

/* ---- system calls that no hand-in needs: they make memory that is no process's, so that no limit counts it, or a
 * name space in which it could mount some. For the machine: a verdict does not depend on it. ---- */

#if defined(__x86_64__)
#define THIS_MACHINE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define THIS_MACHINE AUDIT_ARCH_AARCH64
#endif

#ifdef THIS_MACHINE
enum { OTHER_CALLS = 0x40000000 /* from here on: x86-64's second table of the same calls */ };

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define RETURN(value) BPF_STMT(BPF_RET | BPF_K, (value))
#define REFUSE RETURN(SECCOMP_RET_ERRNO | EPERM)
#define UNLESS(test, value) BPF_JUMP(BPF_JMP | (test) | BPF_K, (value), 0, 1) /* skip the next one */
#define NO(call) UNLESS(BPF_JEQ, (call)), REFUSE

static void refuse_calls(void) {
    static struct sock_filter rules[] = {
        LOAD(arch),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, THIS_MACHINE, 1, 0),
        REFUSE,
        LOAD(nr),
        UNLESS(BPF_JGE, OTHER_CALLS),
        REFUSE,
        NO(SYS_memfd_create),
        NO(SYS_shmget),
        NO(SYS_msgget),
        NO(SYS_unshare),
        NO(SYS_io_uring_setup),
        UNLESS(BPF_JEQ, SYS_clone3), /* its flags cannot be seen; the C library then takes clone */
        RETURN(SECCOMP_RET_ERRNO | ENOSYS),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 3),
        LOAD(args[0]),
        UNLESS(BPF_JSET, CLONE_NEWUSER),
        REFUSE,
        RETURN(SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = {sizeof rules / sizeof *rules, rules};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0) prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}
#else
static void refuse_calls(void) {}
#endif

int main(void) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    refuse_calls();
    choose_kernels();
    lab_wire_write(&wire, &(char){LAB_READY}, 1);
    lab_wire_flush(&wire);
    while (lab_wire_serve(&wire)) fflush(stdout);
    _exit(0);
}
