/* Choose the transport between processes (gs_comm_processes_create in create.h). Without mpirun the processes meet over
 * Gloo. If all are on one machine, they do not use Gloo afterwards; otherwise, if a machine holds several of them, they
 * use it only between machines. */
#include "comm/create.h"
#include "core/process.h"
#include "core/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

static gs_status create_shared(const gs_rendezvous *r, gs_comm **out) {
    gs_comm *gloo;
    char why[256];
    const bool wanted = r->transport && strcmp(r->transport, "shm") == 0;
    GS_TRY(gs_comm_gloo_create(r, &gloo));
    gs_status status = gs_comm_shm_create(gloo, out, why, sizeof why);
    if (status == GS_OK && !*out && wanted)
        status = gs_fail(GS_E_USAGE, "the processes cannot talk over shm (shared memory): %s", why);
    if (status == GS_OK && !*out) {
        status = gs_comm_two_level_create(gloo, NULL, out);
        if (status == GS_OK && !*out) *out = gloo;
        if (status == GS_OK) return GS_OK; /* gloo is taken over */
    }
    gs_comm_free(gloo);
    return status;
}

/* A new transport is a row here, and a prototype in create.h. */
const gs_process_transport gs_process_transports[] = {
    {"auto", create_shared, "shm on one machine, two-level or gloo between several"},
    {"shm", create_shared, "shared memory"},
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

/* A process uses up to four descriptors per peer; the usual soft limit, 1,024, can be raised. */
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

/* ---- settings that must agree on all processes before the first message ---- */

enum {
    CHECK,
    FAULT,
    LINK,
    SETTINGS,
    TEXT = 2048 /* bytes: the longest valid GRADSUM_FAULT fits */
};

typedef struct wishes {
    char text[SETTINGS][TEXT];
    double machine; /* gs_boot_id (core/process.h): processes with the same id share a clock */
} wishes;

static const char *value_of(const char *variable) {
    const char *value = getenv(variable);
    return value && *value && strcmp(value, "0") != 0 ? value : "none";
}

static gs_status compare(const wishes *all, int size) {
    static const char *const names[SETTINGS] = {"GRADSUM_CHECK", "GRADSUM_FAULT", "--link"};
    for (int i = 0; i < SETTINGS; i++)
        for (int p = 1; p < size; p++)
            if (strncmp(all[p].text[i], all[0].text[i], TEXT) != 0)
                return gs_fail(GS_E_USAGE,
                               "process %d and process 0 differ in %s (%.80s versus %.80s): set the same for "
                               "all processes",
                               p, names[i], all[p].text[i], all[0].text[i]);
    for (int p = 1; p < size; p++)
        if (strncmp(all[0].text[LINK], "none", TEXT) != 0 && all[p].machine != all[0].machine)
            return gs_fail(
                GS_E_USAGE,
                "--link needs all processes on one machine: process %d runs on another than process 0", p);
    return GS_OK;
}

gs_status gs_comm_agree(gs_comm *processes, const gs_link *link) {
    wishes mine = {.machine = gs_boot_id()}, *all = calloc((size_t)processes->size, sizeof *all);
    if (!all) return gs_fail(GS_E_MEMORY, "no memory for the settings of %d processes", processes->size);
    snprintf(mine.text[CHECK], TEXT, "%s", value_of("GRADSUM_CHECK"));
    snprintf(mine.text[FAULT], TEXT, "%s", value_of("GRADSUM_FAULT"));
    gs_link_text(link, mine.text[LINK], TEXT);
    gs_status status = gs_comm_all_gather(processes, &mine, all, sizeof mine, GS_U8);
    if (status == GS_OK) status = compare(all, processes->size);
    free(all);
    return status;
}
