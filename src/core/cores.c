#include "core/cores.h"
#include "core/usable.h"

#include <stdio.h>
#include <string.h>

bool gs_cores_may_bind(const char *transport) {
    return strcmp(transport, "gloo") != 0;
}

/* All allowed CPUs, those of one core together. How many; *cores: of how many cores, and in `group` of which one
 * each. */
static int in_order(const cpu_set_t *allowed, const int core_of[CPU_SETSIZE], int cpu[CPU_SETSIZE],
                    int group[CPU_SETSIZE], int *cores) {
    cpu_set_t left = *allowed;
    int count = 0;
    *cores = 0;
    for (int first = 0; first < CPU_SETSIZE; first++) {
        if (!CPU_ISSET((size_t)first, &left)) continue;
        for (int c = first; c < CPU_SETSIZE; c++) {
            if (!CPU_ISSET((size_t)c, &left) || core_of[c] != core_of[first]) continue;
            CPU_CLR((size_t)c, &left);
            cpu[count] = c;
            group[count++] = *cores;
        }
        ++*cores;
    }
    return count;
}

bool gs_cores_divide(const cpu_set_t *allowed, const int core_of[CPU_SETSIZE], int i, int n,
                     cpu_set_t *share) {
    int cpu[CPU_SETSIZE], group[CPU_SETSIZE], cores, count = in_order(allowed, core_of, cpu, group, &cores);
    bool whole = n <= cores;
    int units = whole ? cores : count, first = units * i / n, last = units * (i + 1) / n;
    CPU_ZERO(share);
    for (int k = 0; k < count; k++) {
        int unit = whole ? group[k] : k;
        if (unit >= first && unit < last) CPU_SET((size_t)cpu[k], share);
    }
    return n <= count;
}

/* The lowest CPU of the core that it belongs to; itself where the system does not tell. */
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
