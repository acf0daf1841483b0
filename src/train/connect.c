#include "comm/inject/inject.h"
#include "core/usable.h"
#include "train/connect.h"

#include <string.h>

/* ---- the list of devices ---- */

int gs_devices_count(const char *list) {
    int count = 1;
    for (; *list; list++) count += *list == ',';
    return count;
}

gs_status gs_devices_name(const char *list, int i, char name[48]) {
    const char *from = list;
    for (; i > 0 && from; i--) from = strchr(from, ',') ? strchr(from, ',') + 1 : NULL;
    if (!from) gs_bug("gs_devices_name: '%s' has fewer names", list);
    from += strspn(from, " ");
    size_t length = strcspn(from, ",");
    while (length > 0 && from[length - 1] == ' ') length--;
    if (length == 0) return gs_fail(GS_E_USAGE, "the list of devices '%s' has an empty name", list);
    if (length >= 48) return gs_fail(GS_E_USAGE, "device '%.40s...': the name is too long", from);
    memcpy(name, from, length);
    name[length] = 0;
    return GS_OK;
}

/* ---- binding to cores (core/usable.h says why) ---- */

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

/* ---- connections ---- */

/* --sync gloo is Gloo's own all-reduce: the processes must be connected by Gloo. */
static gs_status connect_processes(const gs_settings *s, const char *purpose, gs_comm **out) {
    gs_rendezvous r = *s->processes;
    gs_inject_before_rendezvous(r.rank);
    if (!r.purpose) r.purpose = purpose;
    r.stop = &gs_stop_requested;
    if (strcmp(s->sync, gs_sync_gloo.name) == 0) {
        if (r.transport && strcmp(r.transport, "auto") != 0 && strcmp(r.transport, "gloo") != 0)
            return gs_fail(GS_E_USAGE,
                           "--sync gloo sums over Gloo, but the processes talk over '%s'; wanted "
                           "--transport gloo or auto",
                           r.transport);
        r.transport = "gloo";
        r.gloo_all_reduce = true;
    }
    return gs_comm_processes_create(&r, out);
}

/* Faults, checks and links must agree before the first message; the step is rank 0's. */
gs_status gs_connect_processes(const gs_settings *s, const char *purpose, int64_t *step, gs_comm **out) {
    GS_TRY(connect_processes(s, purpose, out));
    gs_status status = gs_comm_agree(*out, &s->link);
    if (status == GS_OK) status = gs_comm_broadcast(*out, step, 1, GS_I64, 0);
    if (status == GS_OK) return GS_OK;
    gs_comm_free(*out);
    *out = NULL;
    return status;
}

gs_status gs_wrap_if_wanted(const gs_settings *s, int local, gs_comm **comms) {
    GS_TRY(gs_comm_inject_if_wanted(local, comms));
    for (int i = 0; i < local; i++) GS_TRY(gs_comm_linked_create(comms[i], &s->link, &comms[i]));
    return gs_comm_check_if_wanted(local, comms);
}
