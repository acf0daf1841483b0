#include "cli/cli.h"
#include "cli/launch/launch.h"
#include "comm/rendezvous/route.h"
#include "comm/rendezvous/store.h"
#include "core/usable.h"

#include <stdlib.h>
#include <unistd.h>

static const gs_help help = {
    "launch -n N [options] -- COMMAND [its options]",
    "On this machine, start N gradsum processes that train together. Each runs\n"
    "COMMAND (train or eval) as one rank. Ctrl-C reaches all of them; when one fails,\n"
    "the others are ended. Once some have ended, or after Ctrl-C, a process that\n"
    "stays stopped (SIGSTOP) beyond the time-out is ended too. Ctrl-Z suspends all\n"
    "processes; time-outs do not count that time.\n\n"
    "With --restarts N all processes restart when one is lost, at most N times: from\n"
    "the last checkpoint if the command has --checkpoint DIR, else from the start.\n"
    "The weights are then those of an undisturbed run.\n"
    "With --elastic MIN:MAX the remaining processes repeat the step and continue, at\n"
    "least MIN of them; new ones are started, up to MAX. No checkpoint is needed. It\n"
    "works for train with --sync allreduce, the default, or with --exact.\n"
    "On several machines torchrun --max-restarts or Slurm's --requeue does that, with\n"
    "train --checkpoint DIR --resume auto.\n\n"
    "On several machines, start a launch on each, with the same --nodes, -n and\n"
    "--meet, and its own --node-rank:\n"
    "  gradsum launch --nodes 2 --node-rank 0 --meet tcp://anna:29400 -n 2 -- train\n"
    "anna is the name or the address of the machine of node rank 0. All machines need\n"
    "the same secret, by which they recognise each other: in GRADSUM_SECRET, in\n"
    "--secret-file, or in ~/.config/gradsum/secret, which the first launch makes.\n"
    "Copy this file to machines that do not share the home folder. With --meet\n"
    "file:DIR they meet in a new folder that all machines see; keep it private.\n\n"
    "--hosts does all that from one machine, the first that it names. The others are\n"
    "reached by ssh, with keys; the commands that run there are printed:\n"
    "  gradsum launch --hosts anna,berta:4,carl -n 2 -- train",
    "gradsum launch -n 2 -- train --model lenet --epochs 3", NULL};

/* Whether processes can be bound depends on the transport and on --sync (core/usable.h). The command's own --bind none
 * counts too, because a process cannot undo its launcher's binding. */
static bool may_bind(const gs_launch *l) {
    const char *sync = gs_launch_option(l, "--sync"), *bind = gs_launch_option(l, "--bind");
    if (!gs_cores_may_bind(l->transport) || (sync && !gs_cores_may_bind(sync))) return false;
    return !bind || strcmp(bind, "none") != 0;
}

/* "auto: shm if it works, else gloo; shm: shared memory; ..." */
static const char *transport_help(char *text, size_t size) {
    text[0] = '\0';
    for (const gs_process_transport *t = gs_process_transports; t->name; t++)
        if (t->what) gs_append(text, size, "%s%s: %s", *text ? "; " : "", t->name, t->what);
    return text;
}

/* Only some commands run as ranks. A word like --version is not a command: each process handles it itself. */
static gs_status check_command(const char *name) {
    const char *launched[40] = {NULL};
    char list[200] = "";
    int n = 0;
    if (*name == '-') return GS_OK;
    for (const gs_command *c = gs_commands; c->name && n < 39; c++) {
        if (!(c->traits & GS_RUNS_AS_RANKS)) continue;
        if (strcmp(name, c->name) == 0) return GS_OK;
        launched[n++] = c->name;
        gs_append(list, sizeof list, "%s%s", *list ? ", " : "", c->name);
    }
    for (const gs_command *c = gs_commands; c->name; c++)
        if (strcmp(name, c->name) == 0)
            return gs_fail(
                GS_E_USAGE,
                "'%s' is for one process, so launch cannot start it; use: gradsum %s\n(launch can start: %s)",
                name, name, list);
    const char *nearest = gs_nearest(name, strlen(name), launched);
    if (nearest) return gs_fail(GS_E_USAGE, "unknown command '%s'; did you mean '%s'?", name, nearest);
    return gs_fail(GS_E_USAGE, "unknown command '%s'; launch can start: %s", name, list);
}

/* Reads "2:4" or "2" into MIN and MAX of --elastic. False: the text is neither. */
static bool read_sizes(const char *text, int *min, int *max) {
    int used = 0;
    *max = 0;
    const int numbers = sscanf(text, "%6d%n:%6d%n", min, &used, max, &used);
    return numbers >= 1 && text[used] == '\0' && *min >= 1 && (numbers == 1 || *max >= *min);
}

/* Check whether --elastic or --restarts (`option`) can be used. */
static gs_status check_recovery(const gs_launch *l, const char *option) {
    if (l->nodes > 1 || l->hosts)
        return gs_fail(
            GS_E_USAGE,
            "%s is for the processes of one machine; on several, torchrun --max-restarts N or Slurm's "
            "--requeue starts train again, which goes on with --checkpoint DIR --resume auto",
            option);
    if (l->meet)
        return gs_fail(GS_E_USAGE,
                       "%s: the processes meet in a new folder each time they start; leave --meet out",
                       option);
    if (strcmp(l->command[0], "train") != 0)
        return gs_fail(GS_E_USAGE, "%s is for train; '%s' has nothing to go on with", option, l->command[0]);
    return GS_OK;
}

static gs_status check_elastic(gs_launch *l, const char *sizes) {
    if (!sizes) return GS_OK;
    GS_TRY(check_recovery(l, "--elastic"));
    if (!read_sizes(sizes, &l->elastic_min, &l->elastic_max))
        return gs_fail(
            GS_E_USAGE,
            "--elastic: '%s' is not MIN or MIN:MAX, such as 2:3: the fewest processes, at least 1, "
            "and the most, at least MIN",
            sizes);
    if (l->elastic_min > l->size || l->elastic_max > l->size)
        return gs_fail(GS_E_USAGE, "--elastic %s: more than the %d processes of -n", sizes, l->size);
    if (l->restarts > 0)
        return gs_fail(GS_E_USAGE,
                       "--elastic goes on with the processes that are left, --restarts starts all again; use "
                       "only one of them");
    return GS_OK;
}

static gs_status check_restarts(const gs_launch *l) {
    const char *keep = gs_launch_option(l, "--keep");
    if (l->restarts == 0) return GS_OK;
    GS_TRY(check_recovery(l, "--restarts"));
    if (keep && strstr(keep, "best") && gs_launch_option(l, "--checkpoint"))
        return gs_fail(GS_E_USAGE,
                       "--restarts %d: a run that goes on from a checkpoint does not know the best epoch "
                       "before it; leave out --keep best, or --checkpoint",
                       l->restarts);
    return GS_OK;
}

/* argv[1 .. words]: the words before "--" that are not options. argv[end]: "--", or the end of argv. */
static gs_status take_command(int argc, char **argv, int words, int end, const char *elastic,
                              gs_launch *launch) {
    if (words > 0)
        return gs_fail(GS_E_USAGE, "'%s' is not an option; put '--' before the command: -- %s", argv[1],
                       argv[1]);
    if (launch->size == 0 && !launch->hosts)
        return gs_fail(GS_E_USAGE, "-n N is required: the number of processes");
    if (end >= argc - 1)
        return gs_fail(GS_E_USAGE, "a command is required after '--': what each process runs");
    launch->command = argv + end + 1;
    launch->bind = launch->bind && may_bind(launch);
    GS_TRY(check_command(launch->command[0]));
    GS_TRY(check_elastic(launch, elastic));
    return check_restarts(launch);
}

/* Reads "2,4,2", the number of processes on each node. */
static gs_status take_ranks(gs_launch *l, const char *list) {
    int node = 0;
    if (l->size > 0)
        return gs_fail(GS_E_USAGE, "--ranks says how many processes each node has: leave out -n");
    l->world_size = 0;
    for (const char *at = list;; node++) {
        char *end;
        const long n = strtol(at, &end, 10);
        if (end == at || n < 1 || n > GS_LAUNCH_MOST || (*end && *end != ','))
            return gs_fail(GS_E_USAGE,
                           "--ranks: '%s' is not a list of numbers from 1 to %d, one for each node", list,
                           GS_LAUNCH_MOST);
        if (node == l->node) l->first = l->world_size;
        if (node == l->node) l->size = (int)n;
        l->world_size += (int)n;
        if (!*end) break;
        at = end + 1;
    }
    if (node + 1 == l->nodes) return GS_OK;
    return gs_fail(GS_E_USAGE, "--ranks %s has %d number%s for %d node%s", list, node + 1,
                   gs_s((unsigned)node + 1), l->nodes, gs_s((unsigned)l->nodes));
}

/* Read the secret that `launch --hosts` writes to this process's standard input. */
static gs_status read_secret(gs_launch *l) {
    char text[1026];
    size_t n = 0;
    if (!l->secret_file || strcmp(l->secret_file, "-") != 0) return GS_OK;
    while (n < sizeof text - 1 && read(STDIN_FILENO, text + n, 1) == 1 && text[n] != '\n') n++;
    text[n] = '\0';
    l->secret_file = NULL;
    l->starter = true;
    if (n == 0) return gs_fail(GS_E_USAGE, "--secret-file -: there is no secret in standard input");
    return setenv("GRADSUM_SECRET", text, 1) == 0 ? GS_OK
                                                  : gs_fail(GS_E_MEMORY, "no memory for the environment");
}

/* Reject options that --hosts sets itself. */
static gs_status check_hosts(const gs_launch *l, const char *ranks) {
    gs_endpoint endpoint;
    if (!l->hosts && l->program) return gs_fail(GS_E_USAGE, "--program is for the other machines of --hosts");
    if (!l->hosts) return GS_OK;
    if (l->nodes > 1 || l->node >= 0 || ranks || l->secret_file)
        return gs_fail(GS_E_USAGE,
                       "--hosts sees to --nodes, --node-rank, --ranks and --secret-file by itself");
    if (l->meet) GS_TRY(gs_context(gs_endpoint_read(l->meet, &endpoint), "--meet"));
    return GS_OK;
}

/* l->node is -1 if it was not given. */
static gs_status check_nodes(gs_launch *l, const char *ranks) {
    gs_endpoint endpoint;
    GS_TRY(check_hosts(l, ranks));
    if (l->hosts) return GS_OK;
    if (l->meet) GS_TRY(gs_context(gs_endpoint_read(l->meet, &endpoint), "--meet"));
    if (l->nodes > 1 && !l->meet)
        return gs_fail(GS_E_USAGE,
                       "--nodes %d needs --meet, where their processes meet: tcp://HOST:PORT, with the "
                       "address of node rank 0",
                       l->nodes);
    const bool folder = l->meet && gs_endpoint_is_folder(l->meet);
    if (l->secret_file && (!l->meet || (folder && strcmp(l->secret_file, "-") != 0))) /* "-": from --hosts */
        return gs_fail(GS_E_USAGE,
                       "--secret-file %s: no secret is needed %s; it is for --meet tcp://HOST:PORT",
                       l->secret_file, folder ? "in a folder" : "on one machine without --meet");
    if (l->nodes > 1 && l->node < 0)
        return gs_fail(GS_E_USAGE, "--nodes %d needs --node-rank, which of them this is: 0 to %d", l->nodes,
                       l->nodes - 1);
    if (l->node < 0) l->node = 0;
    if (l->node >= l->nodes)
        return gs_fail(GS_E_USAGE, "--node-rank %d of %d node%s: node ranks are 0 to %d", l->node, l->nodes,
                       gs_s((unsigned)l->nodes), l->nodes - 1);
    if (l->interface) {
        char address[64];
        GS_TRY(gs_context(gs_route_address(l->interface, address, sizeof address), "--interface"));
    }
    l->first = l->node * l->size;
    l->world_size = l->nodes * l->size;
    if (ranks) GS_TRY(take_ranks(l, ranks));
    return read_secret(l);
}

int gs_cmd_launch(int argc, char **argv) {
    const char *transport = getenv("GRADSUM_TRANSPORT");
    gs_launch launch = {.bind = true, .transport = transport ? transport : "auto", .nodes = 1, .node = -1};
    const gs_process_transport *found;
    char *elastic = NULL, *ranks = NULL;
    const double usual = gs_launch_timeout(&launch);
    double timeout = usual;
    const gs_option options[] = {
        {"n", GS_OPTION_INT, &launch.size, 1, GS_LAUNCH_MOST, "N", "number of processes, 1 to 256"},
        {"timeout", GS_OPTION_DOUBLE, &timeout, 0.1, 86400, "S", "seconds a process waits for the others"},
        {"transport", GS_OPTION_TEXT, &launch.transport, 0, 0, "T", transport_help((char[400]){0}, 400)},
        {"nodes", GS_OPTION_INT, &launch.nodes, 1, 1024, "N", "machines, each with its own launch"},
        {"node-rank", GS_OPTION_INT, &launch.node, 0, 1023, "R", "the rank of this machine, from 0"},
        {"ranks", GS_OPTION_TEXT, &ranks, 0, 0, "LIST",
         "instead of -n: processes of each node, such as 2,4,2"},
        {"hosts", GS_OPTION_TEXT, &launch.hosts, 0, 0, "LIST",
         "start a launch on each of these machines over ssh, the first of which is this one; HOST:N: N "
         "processes there"},
        {"program", GS_OPTION_TEXT, &launch.program, 0, 0, "PATH",
         "with --hosts: where gradsum is on the other machines (default: as here)"},
        {"meet", GS_OPTION_TEXT, &launch.meet, 0, 0, "PLACE",
         "where the processes meet: tcp://HOST:PORT (node rank 0), file:DIR"},
        {"interface", GS_OPTION_TEXT, &launch.interface, 0, 0, "NAME",
         "interface or address by which the others reach these processes: eth0, 10.0.0.7"},
        {"secret-file", GS_OPTION_TEXT, &launch.secret_file, 0, 0, "FILE",
         "file with the secret of the run; -: standard input"},
        {"elastic", GS_OPTION_TEXT, &elastic, 0, 0, "MIN:MAX",
         "when a process is lost, continue with the others, at least MIN, and with new ones, up to MAX"},
        {"restarts", GS_OPTION_INT, &launch.restarts, 0, 1000, "N",
         "when a process is lost, restart all from the last checkpoint, at most N times"},
        {"bind", GS_OPTION_BIND, &launch.bind, 0, 0, "W",
         "cores: bind each process to its own cores, if there are enough; none: do not"},
        {0},
    };
    _Static_assert(GS_LAUNCH_MOST == 256, "the help of -n says 256");
    int words, end = 1;
    bool wants_help;
    while (end < argc && strcmp(argv[end], "--") != 0) end++;
    gs_status status = gs_options_parse(options, end, argv, &words, &wants_help);
    if (status == GS_OK && wants_help) {
        gs_options_help(&help, options, end, argv);
        return GS_EXIT_OK;
    }
    launch.timeout = timeout < usual || timeout > usual ? timeout : 0;
    /* Check here too, because a single process never uses its transport. For mpi, the processes print how to get it. */
    if (status == GS_OK) status = gs_process_transport_find(launch.transport, true, &found);
    if (status == GS_OK) status = check_nodes(&launch, ranks);
    if (status == GS_OK) status = take_command(argc, argv, words, end, elastic, &launch);
    if (status == GS_OK) return launch.hosts ? gs_launch_hosts(&launch) : gs_launch_run(&launch);
    gs_tell("launch", "%s", gs_message());
    fprintf(stderr, "for example: gradsum launch -n 2 -- train --model lenet\n");
    return GS_EXIT_USAGE;
}
