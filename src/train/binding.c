/* Which workers are bound to cores of their own: see internal.h, and core/cores.h for why. */
#include "core/cores.h"
#include "train/internal.h"

#include <string.h>

bool gs_devices_are_cpu(const char *devices) {
    char name[48];
    for (int i = 0; i < gs_devices_count(devices); i++)
        if (gs_devices_name(devices, i, name) != GS_OK || strcmp(name, "cpu") != 0) return false;
    return true;
}

int gs_worker_share(const gs_settings *s, int i, int local, cpu_set_t *share) {
    bool several = s->processes && s->processes->size > 1, bound = several && s->processes->own_cpus;
    if (local == 1) return bound && sched_getaffinity(0, sizeof *share, share) == 0 ? CPU_COUNT(share) : 0;
    if (!s->bind || (several && !bound) || !gs_devices_are_cpu(s->devices)) return 0;
    int threads = s->exact || s->threads < 1 ? 1 : s->threads;
    if (threads * local > gs_cpu_cores()) return 0;
    return gs_cores_share(i, local, share) ? CPU_COUNT(share) : 0;
}
