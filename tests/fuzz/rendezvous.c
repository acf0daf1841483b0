/* Files in the rendezvous folder, each of which says which rank wrote it and where that rank is. */
#include "fuzz.h"
#include "comm/rank_info.h"

#include <stdlib.h>
#include <string.h>

enum { RANKS = 4 };

static void rank_info(fuzz_input *in, const char *address) {
    const gs_rendezvous r = {.rank = 0, .size = RANKS, .timeout = 1};
    static gs_rank_info mine;
    gs_rank_info its = {.rank = 1};
    if (!mine.size && gs_rank_info_create(&r, &mine) != GS_OK) fuzz_wrong("%s", gs_message());
    strcpy(mine.address, address);
    char *text = fuzz_text(in);
    const gs_status status = gs_rank_info_parse(&mine, 1, text, "a rank", &its);
    free(text);
    if (status != GS_OK) return;
    if (its.rank != 1 || its.size != RANKS) fuzz_wrong("rank %d of %d", its.rank, its.size);
    gs_rank_info_compare(&mine, &its);
}

FUZZ(in) {
    rank_info(in, fuzz_byte(in) % 2 ? "127.0.0.1" : "10.0.0.7");
}
