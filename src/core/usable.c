#include "core/usable.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PATH = 4096 };

/* The number after `name` in the file, or its first number if name is "". NAN: there is none, or it is "max". */
static double number_of(const char *folder, const char *file, const char *name) {
    char path[PATH + 64], line[256];
    unsigned long long value;
    bool found = false;
    snprintf(path, sizeof path, "%s/%s", folder, file);
    FILE *f = fopen(path, "re");
    if (!f) return NAN;
    while (!found && fgets(line, sizeof line, f))
        found = strncmp(line, name, strlen(name)) == 0 && line[strlen(name)] != '-' &&
                sscanf(line + strlen(name), "%llu", &value) == 1;
    fclose(f);
    return found ? (double)value : NAN;
}

/* How many CPUs' worth of time a control group may use; NAN: no limit. */
static double quota_of(const char *folder) {
    char path[PATH + 64];
    double quota = number_of(folder, "cpu.cfs_quota_us", "") / number_of(folder, "cpu.cfs_period_us", "");
    unsigned long long time, period;
    snprintf(path, sizeof path, "%s/cpu.max", folder);
    FILE *f = fopen(path, "re");
    if (f && fscanf(f, "%llu %llu", &time, &period) == 2 && period > 0) quota = (double)time / (double)period;
    if (f) fclose(f);
    return quota;
}

/* Cached file pages count as free: the kernel reclaims unused ones before the group reaches its limit. */
static void limit_memory(gs_usable *u, double limit, double used, double cached) {
    if (isnan(limit)) return;
    const double left = limit - used + (isnan(cached) ? 0 : cached);
    u->bytes = fmin(u->bytes, limit);
    u->free = fmax(fmin(u->free, left), 0); /* fmin of a number and NAN is the number */
}

/* Only the files of one cgroup version exist. */
static void look_at_group(gs_usable *u, const char *folder) {
    const double quota = quota_of(folder);
    if (quota > 0 && (u->quota <= 0 || quota < u->quota)) u->quota = quota;
    limit_memory(u, number_of(folder, "memory.max", ""), number_of(folder, "memory.current", ""),
                 number_of(folder, "memory.stat", "inactive_file "));
    limit_memory(u, number_of(folder, "memory.limit_in_bytes", ""),
                 number_of(folder, "memory.usage_in_bytes", ""),
                 number_of(folder, "memory.stat", "total_inactive_file "));
}

/* Look at a control group and all its ancestors. In a container the path may be the host's, and perhaps only its end,
 * or no part of it, is mounted. Missing groups set no limit; the mount itself is the container's group. */
static void look_at_groups(gs_usable *u, const char *root, const char *mount, const char *group) {
    char folder[PATH];
    const int top = snprintf(folder, sizeof folder, "%s/sys/fs/cgroup%s%s", root, *mount ? "/" : "", mount);
    snprintf(folder + top, sizeof folder - (size_t)top, "%s", group);
    for (char *end; (end = strrchr(folder, '/')) && end >= folder + top; *end = '\0')
        look_at_group(u, folder);
    look_at_group(u, folder);
}

static void look_at_all_groups(gs_usable *u, const char *root) {
    char path[PATH], line[PATH];
    snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    FILE *f = fopen(path, "re");
    if (!f) return;
    while (fgets(line, sizeof line, f)) { /* "4:cpu,cpuacct:/a/b"; in version 2, "0::/a/b" */
        char *controllers = strchr(line, ':'), *group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!group) continue;
        *group++ = *controllers++ = '\0';
        group[strcspn(group, "\n")] = '\0';
        if (!*controllers) look_at_groups(u, root, "", group);
        for (char *rest, *one = strtok_r(controllers, ",", &rest); one; one = strtok_r(NULL, ",", &rest))
            if (strcmp(one, "cpu") == 0 || strcmp(one, "memory") == 0) look_at_groups(u, root, one, group);
    }
    fclose(f);
}

static int cpus_of_mask(void) {
    cpu_set_t mine;
    if (sched_getaffinity(0, sizeof mine, &mine) == 0 && CPU_COUNT(&mine) > 0) return CPU_COUNT(&mine);
    const long all = sysconf(_SC_NPROCESSORS_ONLN);
    return all > 0 ? (int)all : 1;
}

gs_usable gs_usable_under(const char *root) {
    gs_usable u = {.cpus = cpus_of_mask(), .bytes = INFINITY, .free = INFINITY};
    char proc[PATH];
    snprintf(proc, sizeof proc, "%s/proc", root);
    const double all = number_of(proc, "meminfo", "MemTotal:"),
                 left = number_of(proc, "meminfo", "MemAvailable:");
    if (all > 0 && left >= 0) {
        u.bytes = u.machine_bytes = 1024 * all;
        u.free = 1024 * left;
    }
    look_at_all_groups(&u, root);
    if (isinf(u.bytes)) u.bytes = 0;
    if (isinf(u.free)) u.free = 0;
    if (u.quota >= u.cpus) u.quota = 0;
    if (u.quota > 0) u.cpus = (int)ceil(u.quota);
    return u;
}

gs_usable gs_usable_here(void) {
    return gs_usable_under("");
}

/* ---- workers get their own cores ---- */

bool gs_cores_may_bind(const char *transport) {
    return strcmp(transport, "gloo") != 0;
}

/* Assign numbers, starting from 0, to the cores that have allowed CPUs or, if `by_cpu`, to those CPUs, core by core.
 * Returns the count. */
static int number_units(const cpu_set_t *allowed, const int core_of[CPU_SETSIZE], bool by_cpu,
                        int unit[CPU_SETSIZE]) {
    int units = 0;
    for (int c = 0; c < CPU_SETSIZE; c++) unit[c] = -1;
    for (int first = 0; first < CPU_SETSIZE; first++) {
        if (!CPU_ISSET((size_t)first, allowed) || unit[first] >= 0) continue;
        for (int c = first; c < CPU_SETSIZE; c++)
            if (CPU_ISSET((size_t)c, allowed) && core_of[c] == core_of[first])
                unit[c] = by_cpu ? units++ : units;
        if (!by_cpu) units++;
    }
    return units;
}

bool gs_cores_divide(const cpu_set_t *allowed, const int core_of[CPU_SETSIZE], int i, int n,
                     cpu_set_t *share) {
    int unit[CPU_SETSIZE], units = number_units(allowed, core_of, false, unit);
    if (n > units) units = number_units(allowed, core_of, true, unit);
    CPU_ZERO(share);
    for (int c = 0; c < CPU_SETSIZE; c++)
        if (unit[c] >= units * i / n && unit[c] < units * (i + 1) / n) CPU_SET((size_t)c, share);
    return n <= units;
}

/* The lowest-numbered CPU of this CPU's core; the CPU itself if the system does not report it. */
static int core_of_cpu(int cpu) {
    char path[96];
    int lowest = cpu;
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu);
    FILE *f = fopen(path, "r");
    if (!f) return cpu;
    if (fscanf(f, "%d", &lowest) != 1) lowest = cpu;
    fclose(f);
    return lowest;
}

bool gs_cores_share(int i, int n, cpu_set_t *share) {
    cpu_set_t allowed;
    int core_of[CPU_SETSIZE];
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0 || gs_usable_here().quota > 0) return false;
    for (int c = 0; c < CPU_SETSIZE; c++) core_of[c] = CPU_ISSET((size_t)c, &allowed) ? core_of_cpu(c) : -1;
    return gs_cores_divide(&allowed, core_of, i, n, share);
}

bool gs_cores_bind(const cpu_set_t *share) {
    return sched_setaffinity(0, sizeof *share, share) == 0;
}

bool gs_cores_bind_share(int i, int n) {
    cpu_set_t share;
    return gs_cores_share(i, n, &share) && gs_cores_bind(&share);
}
