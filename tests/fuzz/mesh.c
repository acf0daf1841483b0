/* A connection before both ends have proven their identity: arbitrary bytes arrive, or bytes that start correctly. */
#include "comm/mesh.c"
#include "fuzz.h"

enum { RANKS = 3, LINES = 2 };

/* Plays a peer that sends the right hello, reads the answer, and sends its proof, with one byte changed by `wrong`. */
static void speak_as_guest(mesh *m, talk *t, int end, uint8_t line, uint8_t at, uint8_t wrong) {
    gs_hello hello;
    gs_hello_answer answer;
    unsigned char proof[GS_MAC];
    gs_hello_make(2, 1, line % LINES, &hello);
    if (write(end, &hello, sizeof hello) < 0) fuzz_wrong("the peer cannot write");
    hear(m, t);
    if (t->stage != WANTS_PROOF || read(end, &answer, sizeof answer) != sizeof answer)
        fuzz_wrong("the right hello is not answered");
    if (!gs_handshake_prove(&hello, &answer, m->all[1].secret, m->all[2].secret, proof))
        fuzz_wrong("the answer proves nothing");
    proof[at % GS_MAC] ^= wrong;
    if (write(end, proof, sizeof proof) < 0) fuzz_wrong("the peer cannot write");
    hear(m, t);
    if ((m->left == LINES * (RANKS - 1)) != (wrong != 0))
        fuzz_wrong("%02x in the proof, and %d left", wrong, m->left);
}

FUZZ(in) {
    static gs_rank_info all[RANKS];
    const gs_rendezvous r = {.rank = 1, .size = RANKS, .timeout = 1};
    int socket[LINES * RANKS], ends[2];
    talk t[1] = {{.stage = WANTS_HELLO}};
    mesh m = {.r = &r,
              .all = all,
              .lines = LINES,
              .left = LINES * (RANKS - 1),
              .socket = socket,
              .talk = t,
              .guests = 1};
    for (int i = 0; i < LINES * RANKS; i++) socket[i] = -1;
    for (int i = 0; i < RANKS; i++) memset(all[i].secret, i, GS_SECRET);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) fuzz_wrong("cannot create sockets");
    t->socket = ends[0];
    uint8_t how = fuzz_byte(in), line = fuzz_byte(in), at = fuzz_byte(in), wrong = fuzz_byte(in);
    bool called = how % 3 == 2; /* this rank has called rank 0 and said hello */
    if (called) gs_hello_make(1, 0, 0, &t->mine);
    if (called) t->stage = WANTS_ANSWER;
    if (how % 3 == 1) speak_as_guest(&m, t, ends[1], line, at, wrong);
    if (in->size > 0 && send(ends[1], in->data, in->size < 4096 ? in->size : 4096, MSG_NOSIGNAL) < 0 &&
        t->stage != NOBODY)
        fuzz_wrong("the peer cannot write");
    hear(&m, t);
    if (how % 3 != 1 && m.left != LINES * (RANKS - 1)) fuzz_wrong("a stranger was let in");
    if (t->stage != NOBODY) close(t->socket);
    for (int i = 0; i < LINES * RANKS; i++)
        if (socket[i] >= 0) close(socket[i]);
    close(ends[1]);
}
