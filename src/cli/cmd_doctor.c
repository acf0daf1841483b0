#include "cli/cli.h"
#include "cli/doctor/doctor.h"
#include "cli/launch/launch.h"
#include "comm/meet/store.h"

#include <stdlib.h>
#include <string.h>

static const gs_help help = {
    "doctor [--meet PLACE --nodes N --node-rank R] [-n K]",
    "Check if this machine is fit for a run, and say what would help if it is not.\n"
    "With --meet, start a doctor on each machine of the run: they check if they reach\n"
    "each other, and how fast, and if version, kernels and data are the same. Each\n"
    "shows the same answers, and names a machine that is absent or cannot be reached.\n"
    "The exit status is 0 only if all is well.",
    "gradsum doctor --meet tcp://anna:29400 --nodes 3 --node-rank 0", NULL};

/* d->node is -1 where it was not given. */
static gs_status check(gs_doctor *d) {
    gs_meet_place place;
    if (!d->meet && (d->nodes > 1 || d->node >= 0 || d->interface))
        return gs_fail(GS_E_USAGE,
                       "--nodes, --node-rank and --interface need --meet, where the machines meet: "
                       "tcp://HOST:PORT, with the address of node rank 0");
    if (!d->meet) return GS_OK;
    GS_TRY(gs_context(gs_meet_place_read(d->meet, &place), "--meet"));
    if (strlen(d->meet) >= sizeof((gs_rendezvous *)NULL)->meet)
        return gs_fail(GS_E_USAGE, "--meet: it is too long");
    if (place.kind == GS_MEET_TCP && place.port == 0)
        return gs_fail(GS_E_USAGE, "--meet needs a port that all machines know: tcp://HOST:PORT");
    if (d->nodes < 2)
        return gs_fail(GS_E_USAGE, "--meet needs --nodes N, how many machines there are: 2 or more");
    if (d->node < 0)
        return gs_fail(GS_E_USAGE, "--meet needs --node-rank, which of the machines this is: 0 to %d",
                       d->nodes - 1);
    if (d->node >= d->nodes)
        return gs_fail(GS_E_USAGE, "--node-rank %d of %d nodes: node ranks are 0 to %d", d->node, d->nodes,
                       d->nodes - 1);
    return GS_OK;
}

int gs_cmd_doctor(int argc, char **argv) {
    char *secret_file = NULL;
    int exit_status;
    gs_doctor d = {.data = gs_settings_default().data, .processes = 1, .nodes = 1, .node = -1};
    const gs_launch nothing = {0};
    d.timeout = gs_launch_timeout(&nothing);
    const gs_option options[] = {
        {"meet", GS_OPTION_TEXT, &d.meet, 0, 0, "PLACE",
         "where the machines meet: tcp://HOST:PORT (node rank 0), file:DIR"},
        {"nodes", GS_OPTION_INT, &d.nodes, 1, 1024, "N", "machines, each with a doctor of its own"},
        {"node-rank", GS_OPTION_INT, &d.node, 0, 1023, "R", "which of them this is, from 0"},
        {"n", GS_OPTION_INT, &d.processes, 1, GS_LAUNCH_MOST, "K",
         "processes that the run will have on this machine"},
        {"timeout", GS_OPTION_DOUBLE, &d.timeout, 0.1, 86400, "S",
         "seconds to wait for machines that come later"},
        {"interface", GS_OPTION_TEXT, &d.interface, 0, 0, "NAME",
         "interface or address by which the others reach this machine: eth0, 10.0.0.7"},
        {"secret-file", GS_OPTION_TEXT, &secret_file, 0, 0, "FILE", "file with the secret of the run"},
        {"data", GS_OPTION_TEXT, &d.data, 0, 0, "NAME|DIR", "what the run will train on"},
        {"json", GS_OPTION_FLAG, &d.json, 0, 0, NULL, "one JSON object per line"},
        {0},
    };
    if (!gs_options_taken(options, &help, argc, argv, NULL, &exit_status)) return exit_status;
    gs_status status = check(&d);
    if (status == GS_OK && secret_file && setenv("GRADSUM_SECRET_FILE", secret_file, 1) != 0)
        status = gs_fail(GS_E_MEMORY, "no memory for the environment");
    if (status != GS_OK) return gs_failed("doctor", status);
    if (d.node < 0) d.node = 0;
    gs_doctor_title(&d, "This machine");
    gs_doctor_machine(&d);
    gs_doctor_computes(&d);
    gs_doctor_network(&d);
    if (d.meet) {
        gs_doctor_title(&d, "\nThe machines of the run");
        gs_doctor_others(&d);
    }
    return gs_doctor_end(&d);
}
