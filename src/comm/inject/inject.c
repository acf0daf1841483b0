/* A comm whose rank fails where GRADSUM_FAULT says: see inject.h. */
#include "comm/inject/inject.h"
#include "comm/transports.h"
#include "core/clock.h"
#include "core/shard.h"
#include "core/text.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { USAGE = 2 /* the program's exit status after wrong usage */ };

typedef struct injected {
    gs_wrapper wrapper;
    gs_faults faults; /* of this rank */
    /* Several threads may send and receive at once, each with its own peer (async.c). */
    _Atomic uint64_t operations;
    atomic_bool cut;
} injected;

/* ---- reading ----
 *
 * The value of GRADSUM_FAULT: "KIND:rank=R,operation=K[,generation=G][,seconds=S]"; several are separated by ';'.
 */

enum { FAULT = 120 /* bytes of the longest valid fault, with its 0 */ };

static const char *const names[GS_FAULT_KINDS] = {
    [GS_FAULT_KILL] = "kill",   [GS_FAULT_USAGE] = "usage", [GS_FAULT_STOP] = "stop",
    [GS_FAULT_DELAY] = "delay", [GS_FAULT_DROP] = "drop",
};

/* The members of a fault, and their ranges. */
enum { RANK, OPERATION, GENERATION, SECONDS, MEMBERS };
static char *const members[] = {"rank", "operation", "generation", "seconds", NULL};
static const double least[MEMBERS] = {0, 0, 1, 1e-9}, most[MEMBERS] = {INT_MAX, 1e15, 1000, 1000};

/* False: it is not a valid number for this member. */
static bool read_number(const char *value, int member, double *out) {
    char *end;
    const size_t digits = strspn(value, "0123456789");
    if (member == SECONDS ? digits == 0 && *value != '.' : value[digits]) return false;
    *out = strtod(value, &end);
    return end != value && !*end && *out >= least[member] && *out <= most[member];
}

/* Read one fault; changes the text. False: it is invalid. */
static bool read_fault(char *text, gs_fault *f) {
    double got[MEMBERS] = {[RANK] = NAN, [OPERATION] = NAN, [GENERATION] = 1, [SECONDS] = NAN};
    char *rest = strchr(text, ':'), *value;
    int kind = 0;
    if (!rest) return false;
    *rest++ = '\0';
    while (kind < GS_FAULT_KINDS && strcmp(names[kind], text) != 0) kind++;
    for (rest += strspn(rest, ","); *rest; rest += strspn(rest, ",")) {
        const int member = getsubopt(&rest, members, &value);
        if (member < 0 || !value) return false;
        if (member == GENERATION && strcmp(value, "all") == 0)
            got[member] = 0;
        else if (!read_number(value, member, &got[member]))
            return false;
    }
    if (kind == GS_FAULT_KINDS || isnan(got[RANK]) || isnan(got[OPERATION]) ||
        !isnan(got[SECONDS]) != (kind == GS_FAULT_DELAY) || (kind == GS_FAULT_DROP && got[OPERATION] < 1))
        return false; /* before the processes meet there are no messages to drop */
    *f = (gs_fault){(gs_fault_kind)kind, (int)got[RANK], (uint64_t)got[OPERATION], (int)got[GENERATION],
                    got[SECONDS]};
    return true;
}

gs_status gs_faults_read(const char *text, gs_faults *faults) {
    *faults = (gs_faults){0};
    for (size_t length; *text; text += length + (text[length] == ';')) {
        char whole[FAULT], words[FAULT];
        length = strcspn(text, ";");
        snprintf(whole, sizeof whole, "%.*s", (int)gs_smaller(length, FAULT), text);
        memcpy(words, whole, sizeof words);
        if (length >= FAULT || faults->count == GS_FAULTS ||
            !read_fault(words, &faults->fault[faults->count++]))
            return gs_fail(
                GS_E_USAGE,
                "GRADSUM_FAULT has '%s'; wanted at most %d of kill, usage, stop, delay and drop, as in "
                "kill:rank=1,operation=57 or delay:rank=0,operation=3,seconds=0.5, with a ';' between two",
                gs_printable(whole), GS_FAULTS);
    }
    return GS_OK;
}

/* ---- striking ---- */

static void tell(const char *sentence) {
    fprintf(stderr, "gradsum: %s\n", sentence);
}

void (*gs_faults_tell)(const char *sentence) = tell;

/* doing: what the rank was about to do */
static void strike(const gs_fault *f, const char *doing) {
    char text[300];
    snprintf(text, sizeof text, "GRADSUM_FAULT: rank %d: %s at operation %" PRIu64 ", %s", f->rank,
             names[f->kind], f->operation, doing);
    gs_faults_tell(text);
    if (f->kind == GS_FAULT_KILL) raise(SIGKILL);
    if (f->kind == GS_FAULT_USAGE) _exit(USAGE);
    if (f->kind == GS_FAULT_STOP) raise(SIGSTOP);
    if (f->kind == GS_FAULT_DELAY) gs_sleep_until(gs_seconds() + f->seconds);
}

/* Every operation of the rank begins here. */
static void begin(const gs_comm *c, const gs_call *call) {
    injected *k = c->state;
    const uint64_t operation = atomic_fetch_add(&k->operations, 1) + 1;
    for (int i = 0; i < k->faults.count; i++) {
        const gs_fault *f = &k->faults.fault[i];
        if (f->operation != operation) continue;
        strike(f, gs_call_text(call, true));
        if (f->kind == GS_FAULT_DROP) atomic_store(&k->cut, true);
    }
}

/* ---- operations ---- */

static gs_status injected_send(gs_comm *c, const gs_envelope *e, const void *data, size_t bytes) {
    const injected *k = c->state;
    begin(c, e->call);
    return atomic_load(&k->cut) ? GS_OK : gs_wrapper_send(c, e, data, bytes);
}

static gs_status injected_recv(gs_comm *c, const gs_envelope *e, void *data, size_t bytes) {
    begin(c, e->call);
    return gs_wrapper_recv(c, e, data, bytes);
}

static gs_status injected_collective(gs_comm *c, const gs_call *call, const void *in, void *out) {
    begin(c, call);
    return gs_call_run(gs_wrapper_inner(c), call, in, out);
}

static void injected_free(gs_comm *c) {
    injected *k = c->state;
    const uint64_t operations = atomic_load(&k->operations);
    char text[300];
    for (int i = 0; i < k->faults.count; i++) {
        const gs_fault *f = &k->faults.fault[i];
        if (f->operation <= operations) continue; /* this fault has struck */
        snprintf(text, sizeof text,
                 "GRADSUM_FAULT: rank %d made %" PRIu64 " operations: no %s at operation %" PRIu64, f->rank,
                 operations, names[f->kind], f->operation);
        gs_faults_tell(text);
    }
    gs_comm_free(k->wrapper.inner);
    free(k);
}

static const gs_transport transport_injected = {
    .send = injected_send,
    .recv = injected_recv,
    .collective = injected_collective,
    .abort = gs_wrapper_abort,
    .free = injected_free,
};

/* ---- making them ---- */

/* An elastic launch sets the variable; any other launch has one generation. */
static int generation(void) {
    const char *text = getenv("GRADSUM_GENERATION");
    const int number = text ? atoi(text) : 1;
    return number > 1 ? number : 1;
}

/* The faults of this generation. */
static gs_status read_faults(gs_faults *out) {
    gs_faults all;
    const char *text = getenv("GRADSUM_FAULT");
    const int now = generation();
    GS_TRY(gs_faults_read(text ? text : "", &all));
    out->count = 0;
    for (int i = 0; i < all.count; i++)
        if (all.fault[i].generation == 0 || all.fault[i].generation == now)
            out->fault[out->count++] = all.fault[i];
    return GS_OK;
}

void gs_inject_before_rendezvous(int rank) {
    gs_faults all;
    if (read_faults(&all) != GS_OK) return;
    for (int i = 0; i < all.count; i++) {
        const gs_fault *f = &all.fault[i];
        if (f->rank == rank && f->operation == 0) strike(f, "before the processes meet");
    }
}

static gs_status create(const gs_faults *all, gs_comm *inner, gs_comm **out) {
    injected *k = calloc(1, sizeof *k);
    if (!k) return gs_fail(GS_E_MEMORY, "no memory for the faults of rank %d", inner->rank);
    gs_wrapper_begin(&k->wrapper, inner, &transport_injected);
    for (int i = 0; i < all->count; i++) {
        const gs_fault *f = &all->fault[i];
        if (f->kind == GS_FAULT_DROP) k->wrapper.ops.collective = gs_collective_by_messages;
        if (f->rank == inner->rank && f->operation > 0) k->faults.fault[k->faults.count++] = *f;
    }
    *out = &k->wrapper.comm;
    return GS_OK;
}

gs_status gs_comm_inject_if_wanted(int count, gs_comm **comms) {
    gs_faults all;
    GS_TRY(read_faults(&all));
    for (int i = 0; i < all.count && count > 0 && generation() == 1; i++)
        if (all.fault[i].rank >= comms[0]->size)
            return gs_fail(GS_E_USAGE, "GRADSUM_FAULT names rank %d; there %s %d, from 0 on",
                           all.fault[i].rank, comms[0]->size > 1 ? "are" : "is", comms[0]->size);
    for (int i = 0; i < count && all.count > 0; i++) GS_TRY(create(&all, comms[i], &comms[i]));
    return GS_OK;
}
