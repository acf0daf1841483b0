/* The number of workers that each process claims before the processes join one world. */
#include "fuzz.h"

FUZZ(in) {
    enum { LOCAL = 2, PROCESSES = 3 };
    gs_comm fake = fuzz_comm(in, fuzz_byte(in) % PROCESSES, PROCESSES), *comms[LOCAL] = {0};
    if (gs_comm_workers_create(LOCAL, &fake, 1, comms) != GS_OK) return;
    if (comms[0] == &fake) return;
    for (int i = 0; i < LOCAL; i++) {
        if (comms[i]->rank < 0 || comms[i]->rank >= comms[i]->size)
            fuzz_wrong("rank %d of %d", comms[i]->rank, comms[i]->size);
        gs_comm_free(comms[i]);
    }
}
