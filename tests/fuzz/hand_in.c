/* A hand-in sends arbitrary bytes to its checker, over the wire between their processes (lessons/remote). The bytes may
 * end the checker's wait or be rejected, but must not corrupt the checker's memory. */
#include <setjmp.h>
#include <stdlib.h>
#include <unistd.h>
#include "fuzz.h"
#include "comm/comm.h"
#include "sync/scheme.h"

/* A rejection leaves a call by longjmp(), so allocations are recorded, to free them afterwards. */
static void *kept[64];
static void *keep_it(void *memory) {
    for (int i = 0; i < 64; i++)
        if (!kept[i]) return kept[i] = memory;
    free(memory);
    return NULL;
}
static void let_go(void *memory) {
    for (int i = 0; i < 64; i++)
        if (memory && kept[i] == memory) kept[i] = NULL;
    free(memory);
}
#define malloc(bytes) keep_it(malloc(bytes))
#define calloc(count, bytes) keep_it(calloc(count, bytes))
#define free(memory) let_go(memory)
#include "remote/wire.c"
#include "remote/rooms.c"
#include "remote/common.c"
#undef malloc
#undef calloc
#undef free

enum { COUNT = 6 };

typedef struct call {
    gs_sync *s;
    size_t count;
    float *in, *out;
    double value;
    gs_status status;
} call;

static void pass_call(lab_wire *w, void *arguments) {
    call *a = arguments;
    lab_pass_sync(w, &a->s);
    LAB_VALUE(w, a->count);
    LAB_IN(w, a->in, a->count);
    LAB_INOUT(w, a->out, a->count);
    LAB_RESULT(w, a->value);
    lab_status(w, &a->status);
}

const lab_function lab_functions[] = {{sizeof(call), pass_call, NULL}, {0}};
const char *const lab_may_call[] = {"gs_sync_round", "gs_sync_send", "gs_sync_recv_to", "gs_call_run", NULL};

static jmp_buf refused;
static lab_wire wire;

lab_wire *lab_wire_here(void) {
    return &wire;
}

_Noreturn void lab_wire_lost(lab_wire *w, const char *why) {
    (void)w, (void)why;
    longjmp(refused, 1);
}

void lab_wire_blank(const char *task) {
    if (strlen(task) >= LAB_BLANK_TEXT) fuzz_wrong("a task of %zu letters", strlen(task));
    longjmp(refused, 1);
}

static void make_the_call(void *context) {
    float in[COUNT] = {1, 2, 3, 4, 5, 6}, out[COUNT] = {0}, guard[2] = {7, 7};
    call a = {context, COUNT, in, out, 0, GS_OK};
    lab_wire_ask(&wire, 0, &a);
    if (guard[0] != 7 || guard[1] != 7 || in[0] != 1 || a.in != in || a.out != out || a.count != COUNT)
        fuzz_wrong("the hand-in has changed the checker's memory");
    if (wire.sync || wire.comm) fuzz_wrong("after the call the hand-in still has its gs_sync");
}

FUZZ(in) {
    static gs_sync *s;
    int ends[2];
    gs_comm fake = fuzz_comm(in, fuzz_byte(in) & 1, 3);
    if (!s && gs_sync_create(&gs_sync_ring, &fake, COUNT, &s) != GS_OK)
        fuzz_wrong("no sync: %s", gs_message());
    s->comm = &fake;
    s->array = (gs_sync_array){.count = COUNT};
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) fuzz_wrong("cannot create sockets");
    size_t bytes = in->size / 2; /* the first half is from the hand-in, the rest from other ranks */
    if (send(ends[1], in->data, bytes, MSG_NOSIGNAL) != (ssize_t)bytes)
        fuzz_wrong("no space for %zu bytes", bytes);
    in->data += bytes;
    in->size -= bytes;
    shutdown(ends[1], SHUT_WR);
    wire.fd = ends[0];
    wire.in_used = wire.in_end = wire.out_used = 0;
    wire.nested = 0; /* a rejected call leaves its nesting count behind */
    wire.sync = NULL;
    wire.comm = NULL;
    if (setjmp(refused) == 0) fuzz_allow_bugs(make_the_call, s);
    lab_rooms_free(&wire.rooms);
    for (int i = 0; i < 64; i++) {
        free(kept[i]);
        kept[i] = NULL;
    }
    close(ends[0]);
    close(ends[1]);
}
