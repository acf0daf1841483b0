/* What ranks leave in the folder where they meet: the file with which one says who and where it is, and the note for
 * whom it waits. */
#include "comm/gloo/lost.c"
#include "fuzz.h"
#include "comm/passport.h"

enum { RANKS = 4 };

static void passport(fuzz_input *in, const char *address) {
    const gs_rendezvous r = {.rank = 0, .size = RANKS, .timeout = 1};
    static gs_passport mine;
    gs_passport its = {.rank = 1};
    bool come = false;
    if (!mine.size && gs_passport_create(&r, &mine) != GS_OK) fuzz_wrong("%s", gs_message());
    mine.owner = (long)getuid();
    strcpy(mine.address, address);
    if (gs_passport_read(&mine, 1, fuzz_file(in->data, in->size), &come, &its) != GS_OK || !come) return;
    if (its.rank != 1 || its.size != RANKS) fuzz_wrong("rank %d of %d", its.rank, its.size);
    gs_passport_compare(&mine, &its);
}

static void note(fuzz_input *in) {
    double age[3 * RANKS] = {0};
    bool silent[3 * RANKS] = {false};
    char folder[300];
    snprintf(folder, sizeof folder, "%s", fuzz_folder("waits-1", 0, in->data, in->size));
    gs_gloo_state state = {.folder = folder};
    const gs_comm c = {.rank = 0, .size = RANKS, .timeout = 2, .state = &state};
    if (!read_file(&c, 1, &(wait_notes){age, silent})) fuzz_wrong("a note is not read");
    for (int i = 0; i < 3 * RANKS; i++) {
        bool of_rank_1 = i >= RANKS && i < 2 * RANKS;
        if ((age[i] != 0 && (age[i] != c.timeout || !of_rank_1)) || (silent[i] && !of_rank_1))
            fuzz_wrong("place %d: %g s", i, age[i]);
    }
}

FUZZ(in) {
    uint8_t what = fuzz_byte(in) % 4;
    if (what >= 2)
        note(in);
    else
        passport(in, what % 2 ? "127.0.0.1" : "10.0.0.7");
}
