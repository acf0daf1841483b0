/* Checking mode, with arbitrary notices about calls from the other ranks. */
#include "fuzz.h"
#include "comm/create.h"

enum { RANKS = 3, MOST = 4 };

FUZZ(in) {
    gs_call call = {.operation = (gs_operation)(fuzz_byte(in) % GS_OPERATIONS),
                    .count = fuzz_byte(in) % (MOST + 1),
                    .type = (gs_type)(fuzz_byte(in) % GS_TYPES),
                    .reduction = (gs_reduction)(fuzz_byte(in) % GS_REDUCTIONS),
                    .root = 1};
    char from[8 * MOST * RANKS] = "", to[8 * MOST * RANKS] = "";
    gs_comm fake = fuzz_comm(in, fuzz_byte(in) % 2 * 2, RANKS), *checked;
    if (gs_comm_checked_create(&fake, &checked) != GS_OK) fuzz_wrong("%s", gs_message());
    for (int i = 0; i < 3 && gs_call_run(checked, &call, from, to) == GS_OK; i++) continue;
    gs_comm_free(checked);
}
