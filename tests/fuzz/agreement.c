/* Fuzzes the messages that ranks exchange before the first step, as if from an untrusted peer: settings and, for --sync
 * auto, measurements. */
#include "sync/auto.c"
#include "train/options/agreement.c"
#include "fuzz.h"

static void settings(fuzz_input *in) {
    gs_agreement both[2] = {{.samples = 1}, {.samples = 1}};
    uint8_t equal = fuzz_byte(in); /* this many 256ths of their bytes, from the start, are the same */
    fuzz_bytes(in, &both[0], sizeof both[0]);
    both[1] = both[0];
    size_t begin = sizeof both[1] * equal / 256;
    fuzz_bytes(in, (char *)&both[1] + begin, sizeof both[1] - begin < 16 ? sizeof both[1] - begin : 16);
    if (compare(1, &both[1], &both[0]) != GS_OK && !*gs_message())
        fuzz_wrong("a difference without a message");
}

static void measured(fuzz_input *in, int rank) {
    enum { RANKS = 3 };
    gs_comm fake = fuzz_comm(in, rank, RANKS);
    figures f = {{1e-6, 2e-5}, {1e-6, 1e-5}, 1e-5};
    if (gs_comm_all_reduce(&fake, &f, sizeof f / sizeof(double), GS_F64, GS_MAX) != GS_OK) return;
    decision d = decide(&f, RANKS, 1000);
    if (!d.best || !d.best->time) fuzz_wrong("a scheme without a formula");
}

FUZZ(in) {
    uint8_t what = fuzz_byte(in) % 4;
    if (what < 2)
        settings(in);
    else
        measured(in, what - 2);
}
