/* What a student's function may call with a gs_sync or a gs_comm: the call is made in the checker, which counts. */
#include "wire.h"

#include <stdlib.h>
#include <string.h>
#include "backend.h"
#include "comm/comm.h"
#include "sync/scheme.h"

/* ---- the objects ---- */

typedef struct shape_of_comm {
    int rank, size;
    double timeout;
} shape_of_comm;

/* The hand-in has one process for each rank, so one of each is enough. */
static gs_comm their_comm;
static gs_sync their_sync;

void lab_pass_comm(lab_wire *w, gs_comm **c) {
    shape_of_comm shape = {0};
    if (w->way == LAB_ASKS) {
        shape = (shape_of_comm){(*c)->rank, (*c)->size, (*c)->timeout};
        w->comm = *c;
        lab_wire_note(w, "rank %d of %d", shape.rank, shape.size);
    }
    LAB_VALUE(w, shape);
    if (w->way != LAB_IS_ASKED) return;
    their_comm = (gs_comm){.rank = shape.rank, .size = shape.size, .timeout = shape.timeout};
    *c = &their_comm;
}

void lab_pass_sync(lab_wire *w, gs_sync **s) {
    gs_comm *c = w->way == LAB_ASKS ? (*s)->comm : NULL;
    lab_pass_comm(w, &c);
    size_t most = w->way == LAB_ASKS ? (*s)->most : 0;
    gs_sync_array array = {0};
    if (w->way == LAB_ASKS) array = (*s)->array, w->sync = *s;
    LAB_VALUES(w, most, array);
    if (w->way != LAB_IS_ASKED) return;
    their_sync = (gs_sync){.comm = c, .most = most, .array = array};
    *s = &their_sync;
}

/* The hand-in's base lies as far before the array as the checker's: who forgets `at` is nowhere. */
void lab_pass_mem(lab_wire *w, gs_mem *m, size_t count, bool comes_back) {
    void *array = m->base ? (void *)((uintptr_t)m->base + 4 * m->at) : NULL;
    LAB_VALUE(w, m->at);
    lab_array(w, &array, 4 * count, comes_back);
    m->base = array ? (void *)((uintptr_t)array - 4 * m->at) : NULL;
}

void lab_pass_text(lab_wire *w, const char **text) {
    size_t size = lab_is_request(w) && *text ? strlen(*text) + 1 : 0;
    lab_value(w, &size, sizeof size);
    LAB_IN(w, *text, size);
}

/* ---- the calls ---- */

enum { ROUND = LAB_COMMON, SEND, RECEIVE, RUN, COMM_CALL, LEAKS };

typedef struct sync_call {
    gs_chunk part;
    int rank;
    size_t count;
    float *data; /* of the part, or of the whole array */
    gs_status status;
} sync_call;

static void pass_round(lab_wire *w, void *arguments) {
    (void)w, (void)arguments;
}

static void pass_part(lab_wire *w, void *arguments, bool comes_back) {
    sync_call *a = arguments;
    LAB_VALUES(w, a->part, a->rank);
    if (a->part.count > LAB_MOST_ARRAY) lab_wire_lost(w, "it sent a part of a size that makes no sense");
    lab_array(w, (void **)&a->data, a->part.count * sizeof *a->data, comes_back);
    lab_status(w, &a->status);
}

static void pass_send(lab_wire *w, void *arguments) {
    pass_part(w, arguments, false);
}

static void pass_receive(lab_wire *w, void *arguments) {
    pass_part(w, arguments, true);
}

static void pass_run(lab_wire *w, void *arguments) {
    sync_call *a = arguments;
    LAB_VALUE(w, a->count);
    if (a->count > LAB_MOST_ARRAY) lab_wire_lost(w, "it sent an array of a size that makes no sense");
    LAB_INOUT(w, a->data, a->count);
    lab_status(w, &a->status);
}

typedef struct comm_call {
    gs_call call;
    size_t in_bytes, out_bytes;
    char *in, *out;
    gs_status status;
} comm_call;

static void pass_comm_call(lab_wire *w, void *arguments) {
    comm_call *a = arguments;
    LAB_VALUES(w, a->call, a->in_bytes, a->out_bytes);
    if (a->in_bytes > LAB_MOST_ARRAY || a->out_bytes > LAB_MOST_ARRAY)
        lab_wire_lost(w, "it sent a buffer of a size that makes no sense");
    LAB_IN(w, a->in, a->in_bytes);
    LAB_INOUT(w, a->out, a->out_bytes);
    lab_status(w, &a->status);
}

/* Has LeakSanitizer found memory that nothing points to any more? The other way round: the checker asks. */
typedef struct leaks_call {
    int found;
} leaks_call;

static void pass_leaks(lab_wire *w, void *arguments) {
    LAB_RESULT(w, ((leaks_call *)arguments)->found);
}

#ifdef LAB_HAND_IN

int __lsan_do_recoverable_leak_check(void); /* <sanitizer/lsan_interface.h>, which clang-tidy does not find */

static void call_leaks(void *arguments) {
    ((leaks_call *)arguments)->found = __lsan_do_recoverable_leak_check();
}

/* ---- in the hand-in: the names that the student knows ---- */

static gs_status ask(int index, sync_call *a) {
    lab_remote(index, a);
    return a->status;
}

void gs_sync_round(gs_sync *s) {
    sync_call a = {0};
    (void)s;
    lab_remote(ROUND, &a);
}

gs_status gs_sync_send(gs_sync *s, float *data, gs_chunk part, int to) {
    (void)s;
    if (part.count == 0) return GS_OK;
    return ask(SEND, &(sync_call){.part = part, .rank = to, .data = data + part.first});
}

gs_status gs_sync_recv_to(gs_sync *s, float *to, gs_chunk part, int from) {
    (void)s;
    if (part.count == 0) return GS_OK;
    return ask(RECEIVE, &(sync_call){.part = part, .rank = from, .data = to});
}

gs_status gs_sync_recv(gs_sync *s, float *data, gs_chunk part, int from) {
    return gs_sync_recv_to(s, data + part.first, part, from);
}

gs_status gs_sync_recv_add(gs_sync *s, float *data, gs_chunk part, int from) {
    if (part.count == 0) return GS_OK;
    float *arrived = calloc(part.count, sizeof *arrived);
    if (!arrived) return gs_fail(GS_E_MEMORY, "no memory for %zu floats", part.count);
    gs_status status = gs_sync_recv_to(s, arrived, part, from);
    for (size_t i = 0; i < part.count && status == GS_OK; i++) data[part.first + i] += arrived[i];
    free(arrived);
    return status;
}

/* The wire of a lab has 32 bits. */
void gs_sync_round_off(gs_sync *s, float *data, gs_chunk part) {
    (void)s, (void)data, (void)part;
}

gs_status gs_sync_run(gs_sync *s, float *data, size_t count) {
    (void)s;
    return ask(RUN, &(sync_call){.count = count, .data = data});
}

gs_status gs_call_run(gs_comm *c, const gs_call *call, const void *in, void *out) {
    gs_call_bytes bytes = gs_call_bytes_of(call, c->rank, c->size);
    comm_call a = {*call, bytes.in, bytes.out, (char *)in, out, GS_OK};
    lab_remote(COMM_CALL, &a);
    return a.status;
}

#else

bool lab_wire_leaks(lab_wire *w) {
    leaks_call a = {0};
    lab_wire_ask(w, LEAKS, &a);
    return a.found != 0;
}

/* ---- in the checker: on the objects of the call that the hand-in is in ---- */

extern const char *const lab_may_call[]; /* lab.h */

static gs_sync *sync_here(void) {
    lab_wire *w = lab_wire_here();
    if (!w->sync) lab_wire_lost(w, "it uses a gs_sync where it has none");
    return w->sync;
}

/* What a lab may not call stays closed to a hand-in that writes on the wire itself: the library's sum is no answer to
 * a lab in which one is to be written. */
static void need(const char *name) {
    for (const char *const *may = lab_may_call; *may; may++)
        if (strcmp(*may, name) == 0) return;
    lab_wire_lost(lab_wire_here(), "it called what this lab may not call");
}

static void call_round(void *arguments) {
    (void)arguments;
    need("gs_sync_round");
    gs_sync_round(sync_here());
}

/* A rank that there is not is the library's to find: it stops at once and names it. */
static gs_status check_part(const gs_sync *s, const sync_call *a) {
    if (!a->data) return gs_fail(GS_E_USAGE, "a message whose array is NULL");
    if (a->part.first > s->array.count || a->part.count > s->array.count - a->part.first)
        return gs_fail(GS_E_SHAPE, "a message with elements %zu to %zu of an array of %zu", a->part.first,
                       a->part.first + a->part.count - 1, s->array.count);
    return GS_OK;
}

static void call_send(void *arguments) {
    sync_call *a = arguments;
    need("gs_sync_send");
    gs_sync *s = sync_here();
    a->status = check_part(s, a);
    if (a->status != GS_OK) return;
    /* gs_sync_send takes the whole array, of which it sends the part */
    float *whole = calloc(a->part.first + a->part.count, sizeof *whole);
    if (!whole) gs_bug("no memory");
    memcpy(whole + a->part.first, a->data, a->part.count * sizeof *whole);
    a->status = gs_sync_send(s, whole, a->part, a->rank);
    free(whole);
}

static void call_receive(void *arguments) {
    sync_call *a = arguments;
    need("gs_sync_recv_to");
    gs_sync *s = sync_here();
    a->status = check_part(s, a);
    if (a->status == GS_OK) a->status = gs_sync_recv_to(s, a->data, a->part, a->rank);
}

static void call_run(void *arguments) {
    sync_call *a = arguments;
    gs_sync *s = sync_here();
    need("gs_sync_run");
    if (!a->data || a->count > s->most)
        a->status =
            gs_fail(GS_E_SHAPE, "gs_sync_run: %zu floats; at most %zu", a->data ? a->count : 0, s->most);
    else
        a->status = gs_sync_run(s, a->data, a->count);
}

static void call_comm(void *arguments) {
    comm_call *a = arguments;
    lab_wire *w = lab_wire_here();
    need("gs_call_run");
    if (!w->comm) lab_wire_lost(w, "it uses a gs_comm where it has none");
    const gs_call *c = &a->call;
    if ((unsigned)c->operation >= GS_OPERATIONS || (unsigned)c->type >= GS_TYPES ||
        (unsigned)c->reduction >= GS_REDUCTIONS || c->root < 0 || c->root >= w->comm->size ||
        c->count > LAB_MOST_ARRAY / LAB_MOST_RANKS)
        lab_wire_lost(w, "it calls a collective that makes no sense");
    gs_call_bytes bytes = gs_call_bytes_of(c, w->comm->rank, w->comm->size);
    if (bytes.in != a->in_bytes || bytes.out != a->out_bytes) lab_wire_lost(w, "it sent what makes no sense");
    if ((bytes.in > 0 && !a->in) || (bytes.out > 0 && !a->out))
        a->status = gs_fail(GS_E_USAGE, "%s: its array is NULL", gs_call_text(c, true));
    else
        a->status = gs_call_run(w->comm, c, a->in, a->out);
}
#endif

const lab_function lab_common[] = {
    {sizeof(sync_call), pass_round, LAB_OURS(call_round)},
    {sizeof(sync_call), pass_send, LAB_OURS(call_send)},
    {sizeof(sync_call), pass_receive, LAB_OURS(call_receive)},
    {sizeof(sync_call), pass_run, LAB_OURS(call_run)},
    {sizeof(comm_call), pass_comm_call, LAB_OURS(call_comm)},
    {sizeof(leaks_call), pass_leaks, LAB_THEIRS(call_leaks)},
    {0},
};
