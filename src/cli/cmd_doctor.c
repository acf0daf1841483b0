/* `gradsum doctor`: checks whether this machine is fit for a run, and whether the machines of a run can reach each
 * other. Prints one line per finding, followed by advice. */
#include "cli/cli.h"
#include "cli/launch/launch.h"
#include "comm/rendezvous/route.h"
#include "comm/rendezvous/store.h"
#include "comm/probe/probe.h"
#include "core/usable.h"
#include "io/json.h"

#include <cblas.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/utsname.h>
#include <unistd.h>

enum {
    MARGIN = 18,
    LEAST_MB = 256, /* minimum memory for one process with a small model and its data */
    SOME = 64,      /* about this many samples of a data set are read */
    FACT = 200
};

typedef enum finding { WELL, NOTE, WRONG } finding;

typedef struct doctor {
    bool json, exact;
    int notes, wrong; /* counted so far */
    const char *data; /* the run's --data */
    int processes;    /* the run's processes on this machine */
    int nodes, node;  /* the number of machines, and this one's rank */
    const char *meet; /* where the machines meet; NULL: examine only this machine */
    const char *interface;
    double timeout;  /* seconds to wait for latecomers */
    char facts[900]; /* sent to the other machines: one line per fact, name and value */
} doctor;

/* ---- output ---- */

/* Print a finding about `what`; advice may be NULL. */
static void GS_PRINTF(5, 6)
    say(doctor *d, finding f, const char *what, const char *advice, const char *format, ...) {
    static const char *const word[] = {"ok", "note", "WRONG"}, *const status[] = {"ok", "note", "wrong"};
    char raw[1500], text[1500];
    va_list args;
    va_start(args, format);
    vsnprintf(raw, sizeof raw, format, args);
    va_end(args);
    gs_printable_into(text, sizeof text, raw, ""); /* the text includes the names of other machines */
    d->notes += f == NOTE;
    d->wrong += f == WRONG;
    if (d->json) {
        gs_json_print(GS_JSON_OBJECT(GS_FIELD("event", "check"), GS_FIELD("about", what),
                                     GS_FIELD("status", status[f]), GS_FIELD("says", (const char *)text),
                                     GS_FIELD("advice", advice)));
    } else {
        printf("%-6s %-10s ", word[f], what);
        gs_print_wrapped(MARGIN, text);
        if (advice) printf("%*s-> ", MARGIN - 3, "");
        if (advice) gs_print_wrapped(MARGIN, advice);
    }
    gs_flush_output();
}

static int end(const doctor *d) {
    if (d->json)
        gs_json_print(GS_JSON_OBJECT(GS_FIELD("event", "end"),
                                     GS_FIELD("status", d->wrong ? "wrong" : "well"),
                                     GS_FIELD("wrong", d->wrong), GS_FIELD("notes", d->notes)));
    else if (d->wrong)
        printf("\n%d thing%s wrong.\n", d->wrong, d->wrong == 1 ? " is" : "s are");
    else if (d->notes)
        printf("\nNothing is wrong; see the note%s above.\n", gs_s((unsigned)d->notes));
    else
        printf("\nAll is well.\n");
    return d->wrong ? GS_EXIT_FAILED : GS_EXIT_OK;
}

/* ---- this machine ---- */

static void look_at_cores(doctor *d, const gs_usable *may) {
    const int cores = may->cpus;
    char quota[80] = "", text[GS_BUSY_TEXT];
    const gs_busy busy = gs_busy_measure(cores);
    if (*gs_busy_text(&busy, text)) say(d, NOTE, "busy", "end them before you measure anything", "%s", text);
    gs_append(d->facts, sizeof d->facts, "cores %d\n", cores);
    gs_append(d->facts, sizeof d->facts, "processes %d\n", d->processes);
    if (may->quota > 0)
        snprintf(quota, sizeof quota, " (a CPU quota of %.3g; nothing is bound to cores)", may->quota);
    if (d->processes > cores)
        say(d, NOTE, "cores", "start as many processes as there are cores (-n)",
            "%d processes share %d core%s: they will be slower than %d%s", d->processes, cores,
            cores == 1 ? "" : "s", cores, quota);
    else
        say(d, WELL, "cores", NULL, "%d of %ld may be used%s", cores, sysconf(_SC_NPROCESSORS_ONLN), quota);
}

static void look_at_memory(doctor *d, const gs_usable *may) {
    char group[80] = "", free[160];
    if (may->bytes < may->machine_bytes)
        snprintf(group, sizeof group, " (a limit of its container or group; the machine has %.1f)",
                 may->machine_bytes / 1e9);
    snprintf(free, sizeof free, "%.1f of %.1f GB are free%s", may->free / 1e9, may->bytes / 1e9, group);
    if (!(may->bytes > 0))
        say(d, NOTE, "memory", NULL, "this system does not say how much there is");
    else if (may->free < LEAST_MB * 1e6 * d->processes)
        say(d, WRONG, "memory",
            *group ? "give the container more memory, or start fewer processes"
                   : "end other programs, or start fewer processes",
            "%s: less than %d MB for each of %d process%s", free, LEAST_MB, d->processes,
            d->processes == 1 ? "" : "es");
    else
        say(d, WELL, "memory", NULL, "%s", free);
}

static void look_at_bits(doctor *d, const char *device) {
    if (gs_doctor_exact(device) == GS_OK)
        say(d, WELL, device, NULL, "--exact computes what every other machine does");
    else
        say(d, WRONG, device,
            "leave it out of --devices, or train without --exact; if only the weights differ, gradsum "
            "explain A B "
            "compares two runs with --exact, --digest A here and --digest B on cpu: what differs first",
            "%s", gs_message());
}

static void look_at_devices(doctor *d) {
    gs_device_info *all = NULL;
    const char *problem = NULL;
    int count = 0;
    if (gs_device_list(&all, &count, &problem) != GS_OK) say(d, WRONG, "devices", NULL, "%s", gs_message());
    for (int i = 0; i < count; i++) {
        gs_device *device = NULL;
        if (gs_device_open(all[i].name, 0, &device) == GS_OK)
            say(d, WELL, all[i].name, NULL, "%s%s%s", all[i].description, *all[i].note ? "; " : "",
                all[i].note);
        else
            say(d, WRONG, all[i].name, "gradsum devices", "%s cannot be opened: %s", all[i].description,
                gs_message());
        gs_device_close(device);
        if (d->exact) look_at_bits(d, all[i].name);
    }
    if (count > 0)
        gs_append(d->facts, sizeof d->facts, "processor %s; %s\n", all[0].description, all[0].note);
    if (count == 1)
        say(d, NOTE, "OpenCL", "Debian: apt-get install pocl-opencl-icd; cpu works without it",
            "there is no OpenCL device");
    if (problem && *problem) say(d, NOTE, "OpenCL", NULL, "%s", problem);
    free(all);
}

/* Read a sample of an image folder to find broken images. */
static gs_status read_some(const gs_dataset *set) {
    const size_t step = set->count > SOME ? set->count / SOME : 1, in = gs_dataset_input_bytes(set);
    unsigned char *sample = malloc(in + gs_dataset_target_bytes(set));
    gs_status status = sample ? GS_OK : gs_fail(GS_E_MEMORY, "no memory to read the data");
    for (size_t at = 0; status == GS_OK && set->folder && at < set->count; at += step)
        status = gs_dataset_gather(set, NULL, at, 1, sample, sample + in);
    free(sample);
    return status;
}

/* Check the data, and compute the checksum that the ranks of a run compare. */
static void look_at_data(doctor *d) {
    gs_dataset *set = NULL;
    if (gs_dataset_load(d->data, GS_TRAIN, &set) == GS_OK && read_some(set) == GS_OK) {
        const uint32_t sum = gs_data_checksum(set);
        gs_append(d->facts, sizeof d->facts, "data %.80s, %zu samples, checksum %08x\n", d->data, set->count,
                  sum);
        say(d, WELL, "data", NULL, "%s: %zu samples of %s, checksum %08x", d->data, set->count,
            gs_shape_product(set->shape).text, sum);
    } else {
        gs_append(d->facts, sizeof d->facts, "data none\n");
        say(d, WRONG, "data", "--data names what the run will take", "%s", gs_message());
    }
    gs_dataset_free(set);
}

static void look_here(doctor *d) {
    const gs_usable may = gs_usable_here();
    char interfaces[500], address[64];
    struct utsname u = {0};
    uname(&u);
    gs_append(d->facts, sizeof d->facts, "version %s\n", GRADSUM_VERSION);
    say(d, WELL, "version", NULL, "gradsum %s, %s %s, %s; %.*s, Gloo %s", GRADSUM_VERSION, u.sysname,
        u.release, u.machine, (int)strcspn(openblas_get_config() + 9, " ") + 9, openblas_get_config(),
        gs_comm_gloo_version());
    look_at_cores(d, &may);
    look_at_memory(d, &may);
    look_at_devices(d);
    look_at_data(d);
    gs_route_list(interfaces, sizeof interfaces);
    say(d, WELL, "network", NULL, "%s", interfaces);
    if (d->interface && gs_route_address(d->interface, address, sizeof address) != GS_OK)
        say(d, WRONG, "interface", "name one of these, or leave --interface out", "%s", gs_message());
}

/* ---- the other machines: which are there, which reach each other, and where they differ ---- */

static void say_absent(doctor *d, finding f, int rank, const char *text, double seconds) {
    char advice[500];
    snprintf(advice, sizeof advice,
             "on that machine: gradsum doctor --meet %.250s --nodes %d --node-rank %d; if one runs there, it "
             "says why it cannot reach the others",
             d->meet, d->nodes, rank);
    say(d, f, f == NOTE ? "waiting" : "absent", advice, "node rank %d %s %.3g s", rank, text, seconds);
}

/* Called while waiting: print which machines are still missing. */
static void say_waits(void *context, const gs_probe *p, double left) {
    for (int r = 0; r < p->size; r++)
        if (!p->host[r].came) say_absent(context, NOTE, r, "has not come yet; waiting for at most", left);
}

static bool fact_of(const gs_probe_host *h, const char *name, char value[FACT]) {
    const size_t length = strlen(name);
    for (const char *line = h->facts; *line; line += strcspn(line, "\n"), line += *line == '\n') {
        if (strncmp(line, name, length) != 0 || line[length] != ' ') continue;
        snprintf(value, FACT, "%.*s", (int)strcspn(line + length + 1, "\n"), line + length + 1);
        return true;
    }
    *value = '\0';
    return false;
}

/* Rank b cannot reach rank a: print why, and what a's user can do about it. */
static void say_unreached(doctor *d, const gs_probe *p, int a, int b) {
    const gs_probe_host *h = &p->host[a];
    const gs_probe_link *l = &p->link[a * p->size + b];
    char advice[700], route[FACT], interface[FACT];
    fact_of(h, "route", route);
    fact_of(h, "interface", interface);
    if (strcmp(h->address, route) != 0)
        snprintf(
            advice, sizeof advice,
            "it listens at the wrong interface: its way to the others begins at %s; on node rank %d, leave "
            "--interface out, or say --interface %s",
            route, a, route);
    else
        snprintf(advice, sizeof advice,
                 "a firewall closes the port, or another machine has this address too (bridges of containers "
                 "do): on node rank %d, open its ports for %s, or say --interface",
                 a, p->host[b].address);
    say(d, WRONG, "closed", advice, "node rank %d cannot connect to node rank %d at %s%s: %s", b, a,
        h->address, interface, l->known ? l->why : "nothing was heard of it, one of them ended early");
}

static void say_rate(const doctor *d, const gs_probe_link *l, int a, int b) {
    if (d->json)
        gs_json_print(GS_JSON_OBJECT(GS_FIELD("event", "pair"), GS_FIELD("from", a), GS_FIELD("to", b),
                                     GS_FIELD("round_trip_us", gs_json_rounded(l->round_trip * 1e6, 4)),
                                     GS_FIELD("bytes_per_s", gs_json_rounded(l->rate, 4))));
    else
        printf("       %d - %-6d round trip %9.3f ms, %8.3f Gbit/s\n", a, b, l->round_trip * 1e3,
               l->rate * 8 / 1e9);
}

static void say_links(doctor *d, const gs_probe *p) {
    char interface[FACT];
    for (int r = 0; r < p->size; r++) {
        fact_of(&p->host[r], "interface", interface);
        if (p->host[r].came)
            say(d, WELL, "node", NULL, "%d: %s, listens at %s%s", r, p->host[r].name, p->host[r].address,
                interface);
        else
            say_absent(d, WRONG, r, "did not come within", d->timeout);
    }
    if (*p->strangers) say(d, NOTE, "strangers", NULL, "others came:%s", p->strangers);
    for (int a = 0; a < p->size; a++)
        for (int b = a + 1; b < p->size; b++) {
            const gs_probe_link *l = &p->link[a * p->size + b];
            if (!p->host[a].came || !p->host[b].came) continue;
            if (l->works)
                say_rate(d, l, a, b);
            else
                say_unreached(d, p, a, b);
        }
}

static const struct same {
    const char *name, *advice;
    finding finding;
} same[] = {
    {"version", "install one version on all machines", WRONG},
    {"data", "copy the data of one machine to the others", WRONG},
    {"processes", "the same -n on all machines", WRONG},
    {"cores", "the slowest machine sets the pace: as many samples for each", NOTE},
    {"processor", "the slowest machine sets the pace", NOTE},
};

/* Print this fact for each machine on which its value differs from the first machine's. */
static void compare(doctor *d, const gs_probe *p, const struct same *s) {
    char first[FACT] = "", value[FACT], text[1000] = "";
    int values = 0;
    bool differ = false;
    for (int r = 0; r < p->size; r++) {
        if (!p->host[r].came || !fact_of(&p->host[r], s->name, value)) continue;
        if (values++ == 0) {
            snprintf(first, sizeof first, "%s", value);
            snprintf(text, sizeof text, "node rank %d has %s", r, value);
        } else if (strcmp(first, value) != 0) {
            differ = true;
            gs_append(text, sizeof text, "; %d has %s", r, value);
        }
    }
    if (values < 2) return;
    if (differ)
        say(d, s->finding, s->name, s->advice, "%s", text);
    else
        say(d, WELL, s->name, NULL, "the same on all: %s", first);
}

static void look_at_others(doctor *d) {
    gs_probe *p = NULL;
    gs_rendezvous r = {.rank = d->node, .size = d->nodes, .nodes = d->nodes, .local_rank = -1, .ports = 1};
    r.timeout = d->timeout;
    r.stop = &gs_stop_requested;
    r.purpose = "examine";
    r.transport = "auto";
    r.interface = d->interface;
    r.engine = "gradsum doctor";
    snprintf(r.endpoint, sizeof r.endpoint, "%s", d->meet);
    r.holds_store = d->node == 0;
    gs_stop_on_signals();
    if (gs_probe_run(&r, d->facts, say_waits, d, &p) == GS_OK) {
        say_links(d, p);
        for (size_t k = 0; k < sizeof same / sizeof *same; k++) compare(d, p, &same[k]);
    } else {
        char why[1000];
        snprintf(why, sizeof why, "%s", gs_message());
        say(d, WRONG, "meeting",
            "see that a doctor runs on node rank 0, whose address is in --meet, and that no firewall closes "
            "the port",
            "%s", why);
    }
    gs_probe_free(p);
}

static const gs_help help = {
    "doctor [--exact] [--meet PLACE --nodes N --node-rank R] [-n K]",
    "Check if this machine is fit for a run, and say what would help if it is not.\n"
    "With --meet, start a doctor on each machine of the run: they check whether they\n"
    "reach each other, and how fast, and whether version, data and cores agree. Each\n"
    "prints the same results, and names machines that are absent or unreachable.\n"
    "With --exact, check if train --exact has the same bits on each device as on any\n"
    "other machine: a test of its arithmetic, and three short runs.\n"
    "The exit status is 0 only if nothing is wrong.",
    "gradsum doctor --meet tcp://anna:29400 --nodes 3 --node-rank 0", NULL};

/* d->node is -1 if it was not given. */
static gs_status check(doctor *d) {
    gs_endpoint endpoint;
    if (!d->meet && (d->nodes > 1 || d->node >= 0 || d->interface))
        return gs_fail(GS_E_USAGE,
                       "--nodes, --node-rank and --interface need --meet, where the machines meet: "
                       "tcp://HOST:PORT, with the address of node rank 0");
    if (!d->meet) return GS_OK;
    GS_TRY(gs_context(gs_endpoint_read(d->meet, &endpoint), "--meet"));
    if (strlen(d->meet) >= sizeof((gs_rendezvous *)NULL)->endpoint)
        return gs_fail(GS_E_USAGE, "--meet: it is too long");
    if (endpoint.folder || endpoint.port == 0)
        return gs_fail(GS_E_USAGE, "--meet needs a port that all machines know: tcp://HOST:PORT");
    if (d->nodes < 2)
        return gs_fail(GS_E_USAGE, "--meet needs --nodes N, how many machines there are: 2 or more");
    if (d->node < 0 || d->node >= d->nodes)
        return gs_fail(GS_E_USAGE,
                       "--meet needs --node-rank, which of the machines this is: node ranks are 0 to %d",
                       d->nodes - 1);
    return GS_OK;
}

int gs_cmd_doctor(int argc, char **argv) {
    char *secret_file = NULL;
    int exit_status;
    doctor d = {.data = gs_settings_default().data, .processes = 1, .nodes = 1, .node = -1};
    const gs_launch nothing = {0};
    d.timeout = gs_launch_timeout(&nothing);
    const gs_option options[] = {
        {"meet", GS_OPTION_TEXT, &d.meet, 0, 0, "PLACE",
         "where the machines meet: tcp://HOST:PORT, with the address of node rank 0"},
        {"nodes", GS_OPTION_INT, &d.nodes, 1, 1024, "N", "machines, each with its own doctor"},
        {"node-rank", GS_OPTION_INT, &d.node, 0, 1023, "R", "the rank of this machine, from 0"},
        {"n", GS_OPTION_INT, &d.processes, 1, GS_LAUNCH_MOST, "K",
         "processes that the run will have on this machine"},
        {"timeout", GS_OPTION_DOUBLE, &d.timeout, 0.1, 86400, "S",
         "seconds to wait for machines that come later"},
        {"interface", GS_OPTION_TEXT, &d.interface, 0, 0, "NAME",
         "interface or address by which the others reach this machine: eth0, 10.0.0.7"},
        {"secret-file", GS_OPTION_TEXT, &secret_file, 0, 0, "FILE", "file with the secret of the run"},
        {"data", GS_OPTION_TEXT, &d.data, 0, 0, "NAME|DIR", "what the run will train on"},
        {"exact", GS_OPTION_FLAG, &d.exact, 0, 0, NULL,
         "check that each device has the bits of train --exact"},
        {"json", GS_OPTION_FLAG, &d.json, 0, 0, NULL, "one JSON object per line"},
        {0},
    };
    if (!gs_options_taken(options, &help, argc, argv, NULL, &exit_status)) return exit_status;
    gs_status status = check(&d);
    if (status == GS_OK && secret_file && setenv("GRADSUM_SECRET_FILE", secret_file, 1) != 0)
        status = gs_fail(GS_E_MEMORY, "no memory for the environment");
    if (status != GS_OK) return gs_exit_status("doctor", status);
    if (d.node < 0) d.node = 0;
    if (!d.json) puts("This machine");
    look_here(&d);
    if (d.meet) {
        if (!d.json) puts("\nThe machines of the run");
        look_at_others(&d);
    }
    return end(&d);
}
