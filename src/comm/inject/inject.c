/* A comm whose rank fails where GRADSUM_FAULT says: see inject.h. */
#include "comm/inject/inject.h"
#include "comm/transports.h"
#include "core/clock.h"
#include "core/text.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { USAGE = 2 /* the program's exit status after wrong usage */ };

typedef struct injected {
    gs_around around;
    gs_faults faults; /* of this rank */
    /* Several threads may send and receive at once, each with its own peer (async.c). */
    _Atomic uint64_t operations;
    atomic_bool cut;
    atomic_bool struck[GS_FAULTS]; /* of each fault */
} injected;

/* ---- reading ----
 *
 * The value of GRADSUM_FAULT: "KIND:rank=R,operation=K[,generation=G][,seconds=S]", several with a ';' between them.
 */

enum { FAULT = 120 /* bytes of the longest that makes sense, with its 0 */ };

static const char *const names[GS_FAULT_KINDS] = {
    [GS_FAULT_KILL] = "kill",   [GS_FAULT_USAGE] = "usage", [GS_FAULT_STOP] = "stop",
    [GS_FAULT_DELAY] = "delay", [GS_FAULT_DROP] = "drop",
};

static gs_status wrong(const char *fault, const char *why) {
    return gs_fail(GS_E_USAGE,
                   "GRADSUM_FAULT has '%s', %s; wanted kill, usage, stop, delay or drop, as in "
                   "kill:rank=1,operation=57 or delay:rank=0,operation=3,seconds=0.5, with a ';' between two",
                   gs_printable(fault), why);
}

static bool read_whole(const char *text, uint64_t most, uint64_t *value) {
    char *end;
    if (*text < '0' || *text > '9') return false;
    errno = 0;
    *value = strtoull(text, &end, 10);
    return !*end && errno == 0 && *value <= most;
}

static bool read_seconds(const char *text, double *value) {
    char *end;
    if ((*text < '0' || *text > '9') && *text != '.') return false;
    *value = strtod(text, &end);
    return !*end && *value > 0 && *value <= 1000;
}

/* What "rank=1" says; NULL, or why it makes no sense. */
static const char *read_member(char *member, gs_fault *f) {
    uint64_t rank;
    char *value = strchr(member, '=');
    if (!value) return "where a name has no value";
    *value++ = '\0';
    if (strcmp(member, "rank") == 0) {
        if (!read_whole(value, INT_MAX, &rank)) return "whose rank is no number";
        f->rank = (int)rank;
    } else if (strcmp(member, "operation") == 0) {
        if (!read_whole(value, UINT64_MAX / 2, &f->operation))
            return "whose operation is no number from 0 on";
        if (f->operation == 0 && f->kind == GS_FAULT_DROP)
            return "whose operation is 0, when nothing is sent yet";
    } else if (strcmp(member, "generation") == 0) {
        uint64_t generation = 0;
        if (strcmp(value, "all") != 0 && (!read_whole(value, 1000, &generation) || generation == 0))
            return "whose generation is no number from 1 to 1000, and not all";
        f->generation = (int)generation;
    } else if (strcmp(member, "seconds") == 0 && f->kind == GS_FAULT_DELAY) {
        if (!read_seconds(value, &f->seconds)) return "whose seconds are not above 0, 1000 at most";
    } else {
        return "which has a name that it does not take";
    }
    return NULL;
}

/* One fault, of which the text is used up; `whole` is for the message. */
static gs_status read_fault(char *text, const char *whole, gs_fault *f) {
    char *member = strchr(text, ':'), *rest = NULL;
    if (!member) return wrong(whole, "which has no ':'");
    *member++ = '\0';
    int kind = 0;
    while (kind < GS_FAULT_KINDS && strcmp(names[kind], text) != 0) kind++;
    if (kind == GS_FAULT_KINDS) return wrong(whole, "which is none of its kinds");
    *f = (gs_fault){.kind = (gs_fault_kind)kind, .rank = -1, .operation = UINT64_MAX, .generation = 1};
    for (char *one = strtok_r(member, ",", &rest); one; one = strtok_r(NULL, ",", &rest)) {
        const char *why = read_member(one, f);
        if (why) return wrong(whole, why);
    }
    if (f->rank < 0) return wrong(whole, "which has no rank");
    if (f->operation == UINT64_MAX) return wrong(whole, "which has no operation");
    if (f->kind == GS_FAULT_DELAY && !(f->seconds > 0)) return wrong(whole, "which has no seconds");
    return GS_OK;
}

gs_status gs_faults_read(const char *text, gs_faults *faults) {
    *faults = (gs_faults){0};
    for (size_t length; *text; text += length + (text[length] == ';')) {
        char whole[FAULT], words[FAULT];
        length = strcspn(text, ";");
        const size_t kept = length < FAULT ? length : FAULT - 1;
        memcpy(whole, text, kept);
        whole[kept] = '\0';
        memcpy(words, whole, kept + 1);
        if (length >= FAULT) return wrong(whole, "which is too long");
        if (faults->count == GS_FAULTS)
            return wrong(whole, "which is one more than the 16 that there may be");
        GS_TRY(read_fault(words, whole, &faults->fault[faults->count]));
        faults->count++;
    }
    return GS_OK;
}

/* ---- striking ---- */

static void tell(const char *sentence) {
    fprintf(stderr, "gradsum: %s\n", sentence);
}

void (*gs_faults_tell)(const char *sentence) = tell;

static void say(int rank, const char *format, ...) GS_PRINTF(2, 3);

static void say(int rank, const char *format, ...) {
    char text[500];
    va_list args;
    va_start(args, format);
    const int used = snprintf(text, sizeof text, "GRADSUM_FAULT: rank %d", rank);
    vsnprintf(text + used, sizeof text - (size_t)used, format, args);
    va_end(args);
    gs_faults_tell(text);
}

/* doing: what the rank was about to do */
static void say_struck(const gs_fault *f, const char *doing) {
    say(f->rank, ": %s at operation %" PRIu64 ", %s", names[f->kind], f->operation, doing);
}

/* What needs no comm. */
static void strike_process(const gs_fault *f) {
    if (f->kind == GS_FAULT_KILL) raise(SIGKILL);
    if (f->kind == GS_FAULT_USAGE) _exit(USAGE);
    if (f->kind == GS_FAULT_STOP) raise(SIGSTOP);
    if (f->kind == GS_FAULT_DELAY) gs_sleep_until(gs_seconds() + f->seconds);
}

static void strike(injected *k, int i, const gs_call *call) {
    const gs_fault *f = &k->faults.fault[i];
    atomic_store(&k->struck[i], true);
    say_struck(f, gs_call_text(call, true));
    strike_process(f);
    if (f->kind == GS_FAULT_DROP) atomic_store(&k->cut, true);
}

/* Every operation of the rank begins here. */
static void begin(const gs_comm *c, const gs_call *call) {
    injected *k = c->state;
    const uint64_t operation = atomic_fetch_add(&k->operations, 1) + 1;
    for (int i = 0; i < k->faults.count; i++)
        if (k->faults.fault[i].operation == operation) strike(k, i, call);
}

/* ---- operations ---- */

static gs_status injected_send(gs_comm *c, const gs_envelope *e, const void *data, size_t bytes) {
    const injected *k = c->state;
    begin(c, e->call);
    return atomic_load(&k->cut) ? GS_OK : gs_around_send(c, e, data, bytes);
}

static gs_status injected_recv(gs_comm *c, const gs_envelope *e, void *data, size_t bytes) {
    begin(c, e->call);
    return gs_around_recv(c, e, data, bytes);
}

static gs_status injected_collective(gs_comm *c, const gs_call *call, const void *in, void *out) {
    begin(c, call);
    return gs_call_run(gs_around_inner(c), call, in, out);
}

static void injected_free(gs_comm *c) {
    injected *k = c->state;
    for (int i = 0; i < k->faults.count; i++) {
        const gs_fault *f = &k->faults.fault[i];
        if (atomic_load(&k->struck[i])) continue;
        say(f->rank, " made %" PRIu64 " operations: no %s at operation %" PRIu64, atomic_load(&k->operations),
            names[f->kind], f->operation);
    }
    gs_comm_free(k->around.inner);
    free(k);
}

static const gs_transport transport_injected = {
    .send = injected_send,
    .recv = injected_recv,
    .collective = injected_collective,
    .abort = gs_around_abort,
    .free = injected_free,
};

/* ---- making them ---- */

static const char *value(void) {
    const char *text = getenv("GRADSUM_FAULT");
    return text ? text : "";
}

/* Of an elastic launch, which sets the variable; else there is one. */
static int generation(void) {
    const char *text = getenv("GRADSUM_GENERATION");
    const int number = text ? atoi(text) : 1;
    return number > 1 ? number : 1;
}

/* Only those of this generation. */
static gs_status read_faults(gs_faults *out) {
    gs_faults all;
    const int now = generation();
    GS_TRY(gs_faults_read(value(), &all));
    out->count = 0;
    for (int i = 0; i < all.count; i++)
        if (all.fault[i].generation == 0 || all.fault[i].generation == now)
            out->fault[out->count++] = all.fault[i];
    return GS_OK;
}

void gs_inject_before_meeting(int rank) {
    gs_faults all;
    if (read_faults(&all) != GS_OK) return;
    for (int i = 0; i < all.count; i++) {
        const gs_fault *f = &all.fault[i];
        if (f->rank != rank || f->operation > 0) continue;
        say_struck(f, "before the processes meet");
        strike_process(f);
    }
}

static gs_status create(const gs_faults *all, gs_comm *inner, gs_comm **out) {
    injected *k = calloc(1, sizeof *k);
    if (!k) return gs_fail(GS_E_MEMORY, "no memory for the faults of rank %d", inner->rank);
    gs_around_begin(&k->around, inner, &transport_injected);
    for (int i = 0; i < all->count; i++) {
        const gs_fault *f = &all->fault[i];
        if (f->kind == GS_FAULT_DROP) k->around.ops.collective = gs_collective_by_messages;
        if (f->rank == inner->rank && f->operation > 0) k->faults.fault[k->faults.count++] = *f;
    }
    *out = &k->around.comm;
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
