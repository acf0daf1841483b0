/* A direct connection: the peer sends arbitrary bytes. A length other than this call's is a mistake of the program. */
#include "comm/gloo/direct.c"
#include "fuzz.h"

enum { COUNT = 16, ROOM = 32 };

static gs_direct direct;
static float data[COUNT];

static void all_reduce(void *count) {
    const gs_call call = {GS_ALL_REDUCE, *(size_t *)count, GS_F32, GS_SUM, 0};
    gs_direct_all_reduce(&direct, &call, data, 1000);
}

FUZZ(in) {
    static char room[ROOM];
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) fuzz_wrong("cannot create sockets");
    size_t count = fuzz_byte(in) % (COUNT + 1);
    direct = (gs_direct){
        .rank = fuzz_byte(in) % 2, .socket = ends[0], .crowded = true, .piece = ROOM, .room = room};
    if (in->size > 4096) in->size = 4096; /* so that it fits into the socket */
    if (in->size > 0 && write(ends[1], in->data, in->size) < 0) fuzz_wrong("the peer cannot write");
    shutdown(ends[1], SHUT_WR);
    memset(data, 0, sizeof data);
    fuzz_allow_bugs(all_reduce, &count);
    close(ends[0]);
    close(ends[1]);
}
