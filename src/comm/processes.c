/* Which transport connects the processes: see gs_comm_processes_create in comm.h. Without mpirun they meet over Gloo;
 * if all are on one machine, they do not need it after that, and if some machines hold several, only between machines.
 */
#include "comm/comm.h"

#include <string.h>
#include <sys/resource.h>

#include "core/nearest.h"

static gs_status create_shared(const gs_rendezvous *r, bool wanted, gs_comm **out) {
    gs_comm *gloo, *shared;
    char why[256];
    GS_TRY(gs_comm_gloo_create(r, &gloo));
    gs_status status = gs_comm_shm_create(gloo, &shared, why, sizeof why);
    if (status == GS_OK && !shared && wanted)
        status = gs_fail(GS_E_USAGE, "the processes cannot talk over shm (shared memory): %s", why);
    if (status == GS_OK && !shared) {
        status = gs_comm_hosts_create(gloo, NULL, out);
        if (status == GS_OK && !*out) *out = gloo;
        if (status != GS_OK) gs_comm_free(gloo);
        return status;
    }
    *out = shared;
    gs_comm_free(gloo);
    return status;
}

static gs_status create_auto(const gs_rendezvous *r, gs_comm **out) {
    return create_shared(r, false, out);
}

static gs_status create_shm(const gs_rendezvous *r, gs_comm **out) {
    return create_shared(r, true, out);
}

/* The one list: a new transport takes its line here, and its prototype in comm.h. */
const gs_process_transport gs_process_transports[] = {
    {"auto", create_auto, "shm on one machine, hosts or gloo between several"},
    {"shm", create_shm, "shared memory"},
    {"gloo", gs_comm_gloo_create, "connections"},
    {"mpi", gs_comm_mpi_create, NULL},
    {0},
};

gs_status gs_process_transport_find(const char *name, bool launched, const gs_process_transport **out) {
    const char *names[sizeof gs_process_transports / sizeof *gs_process_transports] = {NULL};
    int known = 0;
    for (*out = gs_process_transports; (*out)->name; ++*out) {
        if (strcmp((*out)->name, name) == 0) return GS_OK;
        if ((*out)->what || !launched) names[known++] = (*out)->name;
    }
    return gs_no_such("transport", name, names);
}

/* A process has up to four for each of the others; a shell's usual limit, 1,024, is no more than a wish. */
static void ask_for_descriptors(int processes) {
    const rlim_t wanted = 4 * (rlim_t)processes + 256;
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted) return;
    limit.rlim_cur = wanted < limit.rlim_max ? wanted : limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
}

gs_status gs_comm_processes_create(const gs_rendezvous *r, gs_comm **out) {
    const gs_process_transport *transport;
    ask_for_descriptors(r->size);
    GS_TRY(gs_process_transport_find(r->transport ? r->transport : "auto", false, &transport));
    GS_TRY(transport->create(r, out));
    if (r->met) r->met();
    return GS_OK;
}
