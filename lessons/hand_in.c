/* A hand-in's program: the student's functions, and a loop that calls them for the checker (remote/remote.h). */
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
#include <sys/mman.h>
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

/* The checker stops at this point, and so do all other processes. */
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

/* Leaks are checked once the check is done (remote/common.c). LLVM, inside PoCL, installs a signal stack in each
 * thread, which would collide with AddressSanitizer's. It also frees so much memory that the quarantine (256 MB by
 * default), which counts twice while LeakSanitizer inspects it from a second process, would be too large. */
const char *__asan_default_options(void) {
    return "detect_leaks=1:leak_check_at_exit=0:use_sigaltstack=0:allocator_may_return_null=1:"
           "max_allocation_size_mb=2048:quarantine_size_mb=64:print_legend=0";
}

const char *__ubsan_default_options(void) {
    return "print_stacktrace=1";
}

/* PoCL keeps some objects of its compiler until the process ends. */
const char *__lsan_default_suppressions(void) {
    return "leak:libpocl.so\nleak:libLLVM\nleak:libclang\nleak:liboclgrind\n";
}

/* ---- the kernels of a lab with a lab.cl, in its program's folder ---- */

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

/* ---- the system calls that a hand-in may make ----
 *
 * They are for the student's code, the sanitizers and, for kernels, PoCL with its compiler and linker. The list
 * excludes calls that create memory outside any process, which no limit would count (sockets, pipes, queues, shared
 * memory), or a namespace in which such memory could be mounted. It protects the machine; no verdict depends on it. */

#if defined(__x86_64__)
#define THIS_MACHINE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define THIS_MACHINE AUDIT_ARCH_AARCH64
#endif

#ifdef THIS_MACHINE
static const unsigned ALLOWED[] = {
    /* clone and mmap are checked below; if a call is missing here (clone3), the C library uses an older one */
    SYS_futex,
    SYS_read,
    SYS_write,
    SYS_recvfrom,
    SYS_sendto,
    SYS_munmap,
    SYS_mprotect,
    SYS_madvise,
    SYS_mremap,
    SYS_brk,
    SYS_mbind,
    SYS_sched_yield,
    SYS_sched_getaffinity,
    SYS_sched_setaffinity,
    SYS_sched_getparam,
    SYS_sched_getscheduler,
    SYS_set_robust_list,
    SYS_set_tid_address,
    SYS_rseq,
    SYS_membarrier,
    SYS_getcpu,
    SYS_clock_gettime,
    SYS_clock_getres,
    SYS_clock_nanosleep,
    SYS_nanosleep,
    SYS_gettimeofday,
    SYS_times,
    SYS_setitimer,
    SYS_getitimer,
    SYS_rt_sigaction,
    SYS_rt_sigprocmask,
    SYS_rt_sigreturn,
    SYS_rt_sigsuspend,
    SYS_rt_sigpending,
    SYS_rt_sigtimedwait,
    SYS_sigaltstack,
    SYS_restart_syscall,
    SYS_kill,
    SYS_tkill,
    SYS_tgkill,
    SYS_exit,
    SYS_exit_group,
    SYS_wait4,
    SYS_waitid,
    SYS_execve,
    SYS_ptrace,
    SYS_prctl,
    SYS_process_vm_readv,
    SYS_setsid,
    SYS_setpgid,
    SYS_getpgid,
    SYS_getsid,
    SYS_getpid,
    SYS_getppid,
    SYS_gettid,
    SYS_getuid,
    SYS_geteuid,
    SYS_getgid,
    SYS_getegid,
    SYS_getgroups,
    SYS_getrlimit,
    SYS_setrlimit,
    SYS_prlimit64,
    SYS_getrusage,
    SYS_getpriority,
    SYS_setpriority,
    SYS_uname,
    SYS_sysinfo,
    SYS_getrandom,
    SYS_openat,
    SYS_close,
    SYS_close_range,
    SYS_lseek,
    SYS_pread64,
    SYS_pwrite64,
    SYS_readv,
    SYS_writev,
    SYS_fcntl,
    SYS_flock,
    SYS_ioctl,
    SYS_dup,
    SYS_dup3,
    SYS_fstat,
    SYS_newfstatat,
    SYS_statx,
    SYS_statfs,
    SYS_fstatfs,
    SYS_faccessat,
    SYS_faccessat2,
    SYS_readlinkat,
    SYS_getdents64,
    SYS_getcwd,
    SYS_chdir,
    SYS_umask,
    SYS_mkdirat,
    SYS_unlinkat,
    SYS_renameat,
    SYS_renameat2,
    SYS_ftruncate,
    SYS_fallocate,
    SYS_fsync,
    SYS_fdatasync,
    SYS_fchmod,
    SYS_fchmodat,
    SYS_utimensat,
    SYS_ppoll,
    SYS_pselect6,
    SYS_fadvise64,
#ifdef SYS_open /* older calls, which newer architectures lack */
    SYS_open,
    SYS_stat,
    SYS_lstat,
    SYS_access,
    SYS_readlink,
    SYS_rename,
    SYS_mkdir,
    SYS_rmdir,
    SYS_unlink,
    SYS_creat,
    SYS_chmod,
    SYS_getdents,
    SYS_dup2,
    SYS_fork,
    SYS_vfork,
    SYS_pause,
    SYS_poll,
    SYS_select,
    SYS_time,
    SYS_alarm,
    SYS_getpgrp,
    SYS_arch_prctl,
#endif
};

enum { CALLS = sizeof ALLOWED / sizeof *ALLOWED };

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define RETURN(value) BPF_STMT(BPF_RET | BPF_K, (value))
#define REFUSE RETURN(SECCOMP_RET_ERRNO | ENOSYS) /* as if the system did not have this call */
#define UNLESS(test, value) BPF_JUMP(BPF_JMP | (test) | BPF_K, (value), 0, 1) /* skips the next instruction */
/* The call's argument must contain none of these bits; this is the only check of the call. */
#define WITHOUT(call, argument, bits)                                                                        \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (call), 0, 4), LOAD(args[argument]), UNLESS(BPF_JSET, (bits)),       \
        REFUSE, RETURN(SECCOMP_RET_ALLOW)

static void refuse_calls(void) {
    static const struct sock_filter first[] = {
        LOAD(arch),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, THIS_MACHINE, 1, 0),
        REFUSE,
        LOAD(nr),
        WITHOUT(SYS_clone, 0, CLONE_NEWUSER),
        WITHOUT(SYS_mmap, 3, MAP_SHARED), /* shared pages would outlive munmap, uncounted */
    };
    static struct sock_filter rules[sizeof first / sizeof *first + 2 * CALLS + 1];
    size_t count = sizeof first / sizeof *first;
    memcpy(rules, first, sizeof first);
    for (size_t i = 0; i < CALLS; i++) {
        rules[count++] = (struct sock_filter)UNLESS(BPF_JEQ, ALLOWED[i]);
        rules[count++] = (struct sock_filter)RETURN(SECCOMP_RET_ALLOW);
    }
    rules[count++] = (struct sock_filter)REFUSE;
    const struct sock_fprog program = {(unsigned short)count, rules};
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
