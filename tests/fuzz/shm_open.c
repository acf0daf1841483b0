/* What processes send each other to open shared memory: where they are, and why they could not open it. */
#include "comm/shm/shm.c"
#include "fuzz.h"

FUZZ(in) {
    enum { RANKS = 3 };
    char why[256] = "";
    long pid[RANKS];
    char answers[RANKS][TEXT], mine[TEXT] = "";
    bool machines = fuzz_byte(in) % 2;
    gs_comm fake = fuzz_comm(in, 0, RANKS);
    gs_shm m = {.rank = 0, .size = RANKS, .noun = "rank", .pid = pid};
    if (machines)
        learn_machines(&fake, &m, why, sizeof why);
    else if (gs_comm_all_gather(&fake, mine, answers, TEXT, GS_U8) == GS_OK)
        hear_answers(answers, RANKS, why, sizeof why);
}
