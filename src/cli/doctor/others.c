/* The machines of a run: who is there, who reaches whom, and what is not the same on all. */
#include "cli/cli.h"
#include "cli/doctor/doctor.h"
#include "comm/meet/route.h"
#include "comm/meet/store.h"
#include "comm/probe/probe.h"
#include "core/text.h"
#include "io/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FACT = 200 };
typedef struct telling {
    gs_doctor *d;
    bool *told; /* [size * size]: of this pair, that there is no connection */
} telling;

static const double CLOCK = 1; /* s that clocks may differ */

/* ---- who is there ---- */

static const char *start_it(const gs_doctor *d, int rank, char advice[500]) {
    snprintf(advice, 500,
             "on that machine: gradsum doctor --meet %.250s --nodes %d --node-rank %d; if it runs there, it "
             "says why it does not get here",
             d->meet, d->nodes, rank);
    return advice;
}

static void say_absent(gs_doctor *d, const gs_probe *p, int rank) {
    char advice[500];
    gs_doctor_say(d, GS_WRONG, "absent", start_it(d, rank, advice), "node rank %d did not come within %g s%s",
                  rank, d->timeout, p->strangers);
}

/* "0.5", "28": never less than it is. */
static const char *seconds_text(double left, char text[24]) {
    snprintf(text, 24, "%g", left < 10 ? ceil(10 * fmax(left, 0.1)) / 10 : ceil(left));
    return text;
}

/* Long before the wait is over: whoever sits here need not wait to know whom for. */
static void say_waits(void *context, const gs_probe *p, double left) {
    gs_doctor *d = ((telling *)context)->d;
    char advice[500], most[24];
    for (int r = 0; r < p->size; r++)
        if (r != p->rank && !p->host[r].came)
            gs_doctor_say(d, GS_NOTE, "waiting", start_it(d, r, advice),
                          "node rank %d has not come yet; this goes on waiting, %s s at most", r,
                          seconds_text(left, most));
}

static const char reach_it[] =
    "on node rank 0, whose address is in --meet: gradsum doctor with --node-rank 0; and "
    "see that no firewall closes the port";

static void say_unreachable(void *context, const char *why, double left) {
    gs_doctor *d = ((telling *)context)->d;
    char most[24];
    gs_doctor_say(d, GS_NOTE, "waiting", reach_it, "%s; this goes on trying, %s s at most", why,
                  seconds_text(left, most));
}

static void say_hosts(gs_doctor *d, const gs_probe *p) {
    for (int r = 0; r < p->size; r++) {
        const gs_probe_host *h = &p->host[r];
        if (h->late)
            gs_doctor_say(d, GS_WRONG, "late",
                          "start all at about the same time, or choose a longer --timeout",
                          "node rank %d came when the others had begun without it", r);
        else if (h->came)
            gs_doctor_say(d, GS_WELL, "node", NULL, "%d: %s, listens at %s%s", r, h->name, h->address,
                          h->interface);
        else
            say_absent(d, p, r);
    }
}

/* ---- who reaches whom ---- */

/* Why rank b does not reach rank a: what a's user can do. */
static void say_unreached(gs_doctor *d, const gs_probe *p, int a, int b) {
    const gs_probe_host *h = &p->host[a];
    const char *why = p->link[a * p->size + b].why;
    char advice[400];
    if (gs_route_is_local(h->address))
        snprintf(advice, sizeof advice,
                 "that is an address of the machine itself: on node rank %d, leave --interface out, or name "
                 "another",
                 a);
    else if (strcmp(h->address, h->route) != 0)
        snprintf(
            advice, sizeof advice,
            "it listens at the wrong interface: its way to the others begins at %s; on node rank %d, leave "
            "--interface out, or say --interface %s",
            h->route, a, h->route);
    else if (strstr(why, "refused"))
        snprintf(advice, sizeof advice,
                 "a firewall of node rank %d refuses the port, or another machine has this address too "
                 "(bridges of "
                 "containers do): open it, or say --interface",
                 a);
    else
        snprintf(advice, sizeof advice,
                 "a firewall between them closes the port, or there is no way: on node rank %d, open its "
                 "ports for "
                 "%s, or say --interface",
                 a, p->host[b].address);
    gs_doctor_say(d, GS_WRONG, "closed", advice, "node rank %d cannot connect to node rank %d at %s%s: %s", b,
                  a, h->address, h->interface, why);
}

static void print_rate(double rate, char text[24]) {
    const double bits = rate * 8;
    if (bits >= 1e9)
        snprintf(text, 24, "%.3g Gbit/s", bits / 1e9);
    else
        snprintf(text, 24, "%.3g Mbit/s", bits / 1e6);
}

static void say_link(const gs_doctor *d, const gs_probe_link *l, int a, int b) {
    char up[24], down[24], pair[24];
    if (d->json) {
        gs_json_print(GS_JSON_OBJECT(GS_FIELD("event", "pair"), GS_FIELD("from", a), GS_FIELD("to", b),
                                     GS_FIELD("round_trip_us", gs_json_rounded(l->round_trip * 1e6, 4)),
                                     GS_FIELD("bytes_per_s", gs_json_rounded(l->up, 4)),
                                     GS_FIELD("bytes_per_s_back", gs_json_rounded(l->down, 4)),
                                     GS_FIELD("clock_ahead_us", gs_json_rounded(-l->ahead * 1e6, 4))));
        return;
    }
    snprintf(pair, sizeof pair, "%d - %d", a, b);
    print_rate(l->up, up);
    print_rate(l->down, down);
    printf("       %-10s %9.3f ms   %12s   %12s   %+12.3f ms\n", pair, l->round_trip * 1e3, up, down,
           -l->ahead * 1e3);
}

static bool both_came(const gs_probe *p, int a, int b) {
    return p->host[a].came && p->host[b].came && !p->host[a].late && !p->host[b].late;
}

/* Who is there, and who cannot reach whom: before anything is measured. */
static void say_connected(void *context, const gs_probe *p) {
    const telling *t = context;
    say_hosts(t->d, p);
    for (int a = 0; a < p->size; a++)
        for (int b = a + 1; b < p->size; b++) {
            const gs_probe_link *l = &p->link[a * p->size + b];
            if (!both_came(p, a, b) || !l->known || l->works) continue;
            say_unreached(t->d, p, a, b);
            t->told[a * p->size + b] = true;
        }
}

static void say_links(const telling *t, const gs_probe *p) {
    gs_doctor *d = t->d;
    bool any = false;
    for (int a = 0; a < p->size; a++)
        for (int b = a + 1; b < p->size; b++) {
            const gs_probe_link *l = &p->link[a * p->size + b];
            if (!l->known || !l->works) continue;
            if (!any && !d->json)
                printf("       %-10s %12s   %12s   %12s   %15s\n", "nodes", "round trip", "to", "back",
                       "2nd's clock");
            any = true;
            say_link(d, l, a, b);
        }
    for (int a = 0; a < p->size; a++)
        for (int b = a + 1; b < p->size; b++) {
            const gs_probe_link *l = &p->link[a * p->size + b];
            const bool both = both_came(p, a, b) && !t->told[a * p->size + b];
            if (both && !l->known)
                gs_doctor_say(
                    d, GS_WRONG, "lost", "see what it says there; then start all again",
                    "nothing was heard of the connection from node rank %d to %d: one of them ended early", b,
                    a);
            else if (both && !l->works)
                say_unreached(d, p, a, b);
            else if (both && fabs(l->ahead) > CLOCK)
                gs_doctor_say(
                    d, GS_NOTE, "clocks", "timedatectl set-ntp true",
                    "those of node ranks %d and %d differ by %.3g s: records of a run would not fit together",
                    a, b, fabs(l->ahead));
        }
}

/* ---- what is not the same ---- */

/* The value of a fact; false: it is not there. */
static bool fact_of(const gs_probe_host *h, const char *name, char value[FACT]) {
    const size_t length = strlen(name);
    for (const char *line = h->facts; *line; line += strcspn(line, "\n"), line += *line == '\n') {
        if (strncmp(line, name, length) != 0 || line[length] != ' ') continue;
        snprintf(value, FACT, "%.*s", (int)strcspn(line + length + 1, "\n"), line + length + 1);
        return true;
    }
    return false;
}

static const struct {
    const char *name, *advice;
    gs_finding finding;
} same[] = {
    {"version", "install one version on all machines", GS_WRONG},
    {"kernels", "install one version on all machines: their OpenCL kernels differ", GS_WRONG},
    {"data", "copy the data of one machine to the others", GS_WRONG},
    {"processes", "the same -n on all machines", GS_WRONG},
    {"cores", "the slowest machine sets the pace: as many samples for each", GS_NOTE},
    {"processor", "the slowest machine sets the pace", GS_NOTE},
};

/* Those that differ from the first machine, each with its value. */
static void compare(gs_doctor *d, const gs_probe *p, size_t k) {
    char first[FACT] = "", value[FACT], text[1000] = "";
    int reference = -1, values = 0;
    bool differ = false;
    for (int r = 0; r < p->size; r++) {
        if (!p->host[r].came || !fact_of(&p->host[r], same[k].name, value)) continue;
        values++;
        if (reference < 0) {
            reference = r;
            snprintf(first, sizeof first, "%s", value);
            snprintf(text, sizeof text, "node rank %d has %s", r, value);
        } else if (strcmp(first, value) != 0) {
            differ = true;
            gs_append(text, sizeof text, "; %d has %s", r, value);
        }
    }
    if (values < 2) return; /* there is nothing to compare with */
    if (differ)
        gs_doctor_say(d, same[k].finding, same[k].name, same[k].advice, "%s", text);
    else
        gs_doctor_say(d, GS_WELL, same[k].name, NULL, "the same on all: %s", first);
}

/* ---- all of it ---- */

static gs_rendezvous rendezvous_of(const gs_doctor *d) {
    gs_meet_place place;
    gs_rendezvous r = {.rank = d->node,
                       .size = d->nodes,
                       .timeout = d->timeout,
                       .stop = &gs_stop_requested,
                       .purpose = "examine",
                       .transport = "auto",
                       .ports = 1,
                       .interface = d->interface,
                       .nodes = d->nodes,
                       .local = -1,
                       .engine = "gradsum doctor"};
    snprintf(r.meet, sizeof r.meet, "%s", d->meet);
    r.hosts = d->node == 0 && gs_meet_place_read(d->meet, &place) == GS_OK && place.kind == GS_MEET_TCP;
    return r;
}

void gs_doctor_others(gs_doctor *d) {
    gs_probe *p = NULL;
    telling t = {d, calloc((size_t)d->nodes * (size_t)d->nodes, sizeof *t.told)};
    const gs_probe_news news = {&t, say_unreachable, say_waits, say_connected};
    const gs_rendezvous r = rendezvous_of(d);
    gs_stop_on_signals();
    gs_status status = t.told ? gs_probe_run(&r, d->facts, &news, &p)
                              : gs_fail(GS_E_MEMORY, "no memory for %d machines", d->nodes);
    if (status == GS_OK) {
        say_links(&t, p);
        for (size_t k = 0; k < sizeof same / sizeof *same; k++) compare(d, p, k);
    } else {
        char why[1000];
        snprintf(why, sizeof why, "%s", gs_message());
        gs_doctor_say(d, GS_WRONG, "meeting", NULL, "%s", why);
    }
    gs_probe_free(p);
    free(t.told);
}
