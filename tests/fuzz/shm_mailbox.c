/* Mailboxes and slots in shared memory that another process has filled with arbitrary bytes. */
#include "comm/shm/shm.c"
#include "fuzz.h"

enum { RANKS = 2, USED = 8 << 20 };

static gs_shm shm;
static gs_comm comm = {.size = RANKS, .timeout = 1e-3, .state = &shm};
static gs_shm_mailbox *box; /* from one rank to the other */
static gs_call call;

static void receive(void *data) {
    shm_recv(&comm, &(gs_envelope){0, 0, 0, &call}, data, call.count);
}

static void send_to_box(void *data) {
    shm_send(&comm, &(gs_envelope){1, 0, 0, &call}, data, call.count);
}

static void compare_calls(void *data) {
    (void)data;
    show(&shm, &call);
    compare(&shm, &call);
}

static void make(void) {
    size_t header = (sizeof(gs_shm_header) + RANKS * sizeof(gs_shm_rank_slot) + 4095) / 4096 * 4096;
    shm = (gs_shm){.rank = 0, .size = RANKS, .noun = "rank"};
    if (create_segment(&shm.segment) != GS_OK) fuzz_wrong("%s", gs_message());
    shm.header = (gs_shm_header *)shm.segment.base;
    shm.mailboxes = (gs_shm_mailbox *)(shm.segment.base + header);
    shm.watch = malloc(RANKS * sizeof *shm.watch);
    for (int r = 0; r < RANKS; r++) shm.watch[r] = -1;
    char nothing = 0;
    call = (gs_call){GS_SEND, 1, GS_U8, 0, 1};
    send_to_box(&nothing);
    for (box = shm.mailboxes; !box->key;) box++;
}

FUZZ(in) {
    char data[256] = "";
    if (!box) make();
    call = (gs_call){GS_RECV, fuzz_byte(in), GS_U8, 0, 1};
    uint8_t what = fuzz_byte(in) % 3;
    shm.rank = what == 0; /* rank 1 receives from the mailbox that rank 0 sends to */
    memset((void *)shm.header, 0, sizeof *shm.header + RANKS * sizeof(gs_shm_rank_slot));
    shm.header->used = USED;
    fuzz_bytes(in, box->copy, sizeof box->copy);
    box->sent = fuzz_byte(in);
    box->taken = box->sent - (what == 0) - fuzz_byte(in) % 4; /* so that neither rank blocks */
    fuzz_bytes(in, box->buffer, sizeof box->buffer);
    for (int i = 0; i < GS_SHM_COPIES; i++) box->buffer[i].bytes %= 300; /* small copies, given back */
    if (what == 2) {
        fuzz_bytes(in, &shm.header->slots[1].call, sizeof shm.header->slots[1].call);
        call.operation = GS_ALL_REDUCE;
    }
    fuzz_allow_bugs(what == 0 ? receive : what == 1 ? send_to_box : compare_calls, data);
}
