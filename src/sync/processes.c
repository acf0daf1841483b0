/* Which transport connects the processes: see gs_comm_processes_create in comm.h. Without mpirun they meet over Gloo; where
 * all are on one machine they need it no longer then.
 */
#include "sync/comm.h"

#include <string.h>

static gs_status create_shared(const gs_rendezvous *r, bool wanted, gs_comm **out) {
    gs_comm *gloo, *shared;
    char why[256];
    GS_TRY(gs_comm_gloo_create(r, &gloo));
    gs_status status = gs_comm_shm_create(gloo, &shared, why, sizeof why);
    if (status == GS_OK && !shared && wanted)
        status = gs_fail(GS_E_USAGE, "the processes cannot talk over shm (shared memory): %s", why);
    if (status == GS_OK && !shared) {
        *out = gloo;
        return GS_OK;
    }
    *out = shared;
    gs_comm_free(gloo);
    return status;
}

gs_status gs_comm_processes_create(const gs_rendezvous *r, gs_comm **out) {
    const char *name = r->transport ? r->transport : "auto";
    if (strcmp(name, "auto") == 0) return create_shared(r, false, out);
    if (strcmp(name, "shm") == 0) return create_shared(r, true, out);
    if (strcmp(name, "gloo") == 0) return gs_comm_gloo_create(r, out);
    if (strcmp(name, "mpi") == 0) return gs_comm_mpi_create(r, out);
    return gs_fail(GS_E_USAGE,
                   "no transport between processes is called '%s'; there are: auto, shm, gloo, mpi", name);
}
