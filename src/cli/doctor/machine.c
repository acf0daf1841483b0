/* This machine: what a run takes of the system. */
#include "cli/doctor/doctor.h"
#include "comm/probe/probe.h"
#include "core/busy.h"
#include "core/usable.h"
#include "core/version.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

enum {
    LEAST_MB = 256,       /* of memory for a process: a small model and its data */
    SHARED = 1024 * 1024, /* bytes of shared memory for a process (comm/shm/open.c) */
    FILES = 100,
    FILES_EACH = 3 /* descriptors of a process, and for each other one */
};

static void look_at_version(gs_doctor *d) {
    struct utsname u = {0};
    uname(&u);
    gs_doctor_fact(d, "version", "%s", GRADSUM_VERSION);
    gs_doctor_say(d, GS_WELL, "version", NULL, "gradsum %s, %s %s, %s", GRADSUM_VERSION, u.sysname, u.release,
                  u.machine);
}

static void look_at_cores(gs_doctor *d, const gs_usable *may) {
    const int cores = may->cpus;
    char quota[80] = "";
    const gs_busy busy = gs_busy_measure(cores);
    char text[GS_BUSY_TEXT];
    if (*gs_busy_text(&busy, text))
        gs_doctor_say(d, GS_NOTE, "busy", "end them before you measure anything", "%s", text);
    gs_doctor_fact(d, "cores", "%d", cores);
    gs_doctor_fact(d, "processes", "%d", d->processes);
    if (may->quota > 0)
        snprintf(quota, sizeof quota, " (a quota of %.3g CPUs' time; nothing is bound to cores)", may->quota);
    if (d->processes > cores)
        gs_doctor_say(d, GS_NOTE, "cores", "start as many processes as there are cores (-n)",
                      "%d processes share %d core%s: they will be slower than %d%s", d->processes, cores,
                      cores == 1 ? "" : "s", cores, quota);
    else
        gs_doctor_say(d, GS_WELL, "cores", NULL, "%d of %ld may be used%s", cores,
                      sysconf(_SC_NPROCESSORS_ONLN), quota);
}

static void look_at_memory(gs_doctor *d, const gs_usable *may) {
    struct rlimit limit;
    char group[80] = "";
    if (may->bytes < may->machine_bytes)
        snprintf(group, sizeof group, " (a limit of its container or group; the machine has %.1f)",
                 may->machine_bytes / 1e9);
    if (!(may->bytes > 0))
        gs_doctor_say(d, GS_NOTE, "memory", NULL, "this system does not say how much there is");
    else if (may->free < LEAST_MB * 1e6 * d->processes)
        gs_doctor_say(d, GS_WRONG, "memory",
                      *group ? "give the container more memory, or start fewer processes"
                             : "end other programs, or start fewer processes",
                      "%.1f of %.1f GB are free%s: less than %d MB for each of %d process%s", may->free / 1e9,
                      may->bytes / 1e9, group, LEAST_MB, d->processes, d->processes == 1 ? "" : "es");
    else
        gs_doctor_say(d, GS_WELL, "memory", NULL, "%.1f of %.1f GB are free%s", may->free / 1e9,
                      may->bytes / 1e9, group);
    if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
        gs_doctor_say(d, GS_NOTE, "memory", "ulimit -v unlimited",
                      "addresses are limited to %.1f GB (ulimit -v)", (double)limit.rlim_cur / 1e9);
}

static void look_at_files(gs_doctor *d) {
    struct rlimit limit;
    const long wanted = FILES + (long)FILES_EACH * d->processes * d->nodes;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
        (long)limit.rlim_cur >= wanted)
        gs_doctor_say(d, GS_WELL, "open files", NULL, "a process needs about %ld", wanted);
    else
        gs_doctor_say(d, GS_WRONG, "open files", "ulimit -n 4096",
                      "a process may open %ld, and needs about %ld to talk to all others",
                      (long)limit.rlim_cur, wanted);
}

static void look_at_shared_memory(gs_doctor *d) {
    if (gs_probe_shared_memory((size_t)d->processes * SHARED) == GS_OK)
        gs_doctor_say(d, GS_WELL, "shared mem.", NULL, "processes of this machine can share memory");
    else
        gs_doctor_say(d, GS_WRONG, "shared mem.",
                      "give the container more memory; or use launch --transport gloo", "%s", gs_message());
}

/* Where a launch makes its folder. */
static void look_at_folders(gs_doctor *d) {
    const char *tmp = getenv("TMPDIR");
    if (!tmp || !*tmp) tmp = "/tmp";
    if (access(tmp, W_OK | X_OK) == 0)
        gs_doctor_say(d, GS_WELL, "folders", NULL, "%s can be written to", tmp);
    else
        gs_doctor_say(d, GS_WRONG, "folders", "TMPDIR names another folder", "%s cannot be written to: %s",
                      tmp, strerror(errno));
}

void gs_doctor_machine(gs_doctor *d) {
    const gs_usable may = gs_usable_here();
    look_at_version(d);
    look_at_cores(d, &may);
    look_at_memory(d, &may);
    look_at_files(d);
    look_at_shared_memory(d);
    look_at_folders(d);
}
