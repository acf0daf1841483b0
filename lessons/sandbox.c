#include "sandbox.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "contain.h"

/* IDs of users who own nothing: systemd takes its dynamic users from the same range (systemd.exec, DynamicUser=). */
enum { FIRST_USER = 61184, USERS = 4096 };

#define TEMPORARY_BYTES "67108864"
/* The grading user's processes are counted per namespace; before Linux 5.14, the count includes all of the user's. */
#define MOST_PROCESSES(own_user) ((own_user) ? "--nproc=256" : "--nproc=4096")

typedef struct word_list {
    const char **word;
    int count;
} word_list;

static void add(word_list *l, const char *const *words) {
    while (*words) l->word[l->count++] = *words++;
}
#define ADD(l, ...) add(l, (const char *const[]){__VA_ARGS__, NULL})

/* Starts with `env -i`, so that bubblewrap's own process inherits no environment, either. */
static void add_environment(word_list *l, char *const *environment) {
    static const char *const kept[] = {"OCL_ICD_VENDORS", "OCL_ICD_FILENAMES", "POCL_DEVICES"};
    static char text[sizeof kept / sizeof *kept][512];
    ADD(l, "env", "-i", "PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/tmp", "LC_ALL=C.UTF-8");
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
        const char *value = getenv(kept[i]);
        if (value && snprintf(text[i], sizeof *text, "%s=%s", kept[i], value) < (int)sizeof *text)
            ADD(l, text[i]);
    }
    for (; environment && *environment; environment++) ADD(l, *environment);
}

int lab_sandbox_words(lab_sandbox *s, bool writable, char *const *environment,
                      const char *words[LAB_SANDBOX_WORDS]) {
    static char user[LAB_SANDBOX_TEXT], group[LAB_SANDBOX_TEXT]; /* one sandbox per process */
    word_list l = {words, 0};
    add_environment(&l, environment);
    ADD(&l, "bwrap", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts",
        "--unshare-cgroup-try", "--die-with-parent", "--new-session");
    if (s->user)
        ADD(&l, "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID");
    else
        ADD(&l, "--unshare-user", "--uid", "65534", "--gid", "65534");
    /* links as in the real system, because PoCL looks for its files next to its library */
    ADD(&l, "--perms", "755", "--dir", "/etc", "--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin",
        "--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64", "--ro-bind-try",
        "/etc/alternatives", "/etc/alternatives");
    /* PoCL reads the number of cores and the size of memory there */
    ADD(&l, "--perms", "755", "--dir", "/sys", "--perms", "755", "--dir", "/sys/devices", "--ro-bind-try",
        "/sys/devices/system", "/sys/devices/system");
    ADD(&l, "--ro-bind-try", "/etc/OpenCL", "/etc/OpenCL", "--ro-bind-try", "/etc/ld.so.cache",
        "/etc/ld.so.cache", "--proc", "/proc", "--dev", "/dev");
    ADD(&l, "--size", TEMPORARY_BYTES, "--perms", "1777", "--tmpfs", "/tmp",
        writable ? "--bind" : "--ro-bind", s->folder, "/work", "--ro-bind", s->headers, "/tree", "--chdir",
        "/tree");
    /* both are in memory without a limit on their size, and an ordinary user could write to them */
    ADD(&l, "--remount-ro", "/dev", "--remount-ro", "/");
    ADD(&l, "prlimit", MOST_PROCESSES(s->user), "--nofile=64");
    if (s->user) {
        snprintf(user, sizeof user, "--reuid=%u", s->user);
        snprintf(group, sizeof group, "--regid=%u", s->user);
        ADD(&l, "setpriv", user, group, "--clear-groups", "--no-new-privs");
    }
    return l.count;
}

/* Runs a command that does nothing, inside the sandbox. */
static gs_status try_it(lab_sandbox *s) {
    const char *words[LAB_SANDBOX_WORDS + 2];
    int count = lab_sandbox_words(s, false, NULL, words);
    words[count++] = "true";
    words[count] = NULL;
    lab_job job = {.command = (char *const *)words, .limits = {10, (size_t)1 << 28, 1 << 16}};
    GS_TRY(lab_contain(&job, 1, 1));
    gs_status status = GS_OK;
    if (job.end != LAB_EXITED || job.code != 0) {
        job.output[strcspn(job.output, "\n")] = '\0';
        status = gs_fail(GS_E_DEVICE, "%s", *job.output ? job.output : "it does not start");
    }
    lab_job_free(&job);
    return status;
}

/* Makes the user the owner of the folder and its files. The user has run nothing yet, so there is no link to follow. */
static gs_status give_folder(const lab_sandbox *s) {
    char path[4200];
    DIR *d = opendir(s->folder);
    bool given = d && chmod(s->folder, 0700) == 0;
    for (const struct dirent *e; given && (e = readdir(d));) {
        if (strcmp(e->d_name, "..") == 0) continue;
        snprintf(path, sizeof path, "%s/%s", s->folder, e->d_name);
        given = lchown(path, s->user, s->user) == 0;
    }
    int error = errno;
    if (d) closedir(d);
    if (given) return GS_OK;
    return gs_fail(GS_E_FILE, "cannot give the folder %s to user %u: %s", s->folder, s->user,
                   strerror(error));
}

gs_status lab_sandbox_create(lab_sandbox *s, const char *folder, const char *headers) {
    *s = (lab_sandbox){folder, headers, geteuid() == 0 ? FIRST_USER + (unsigned)getpid() % USERS : 0};
    if (s->user) GS_TRY(give_folder(s));
    return gs_context(try_it(s), "no sandbox here (bubblewrap)");
}
