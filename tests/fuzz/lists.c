/* Comma-separated lists: devices, and `gradsum sweep`'s batches, which are increasing numbers, "..." and "all". */
#include <stdlib.h>
#include "cl/open.c"
#include "fuzz.h"
#include "train/sweep.h"

static void devices(const char *text) {
    char name[48];
    place p;
    int count = gs_devices_count(text);
    for (int i = 0; i < count && i < 40; i++)
        if (gs_devices_name(text, i, name) == GS_OK && parse(name, &p) == GS_OK && p.parts &&
            (p.part < 0 || p.part >= p.parts))
            fuzz_wrong("part %d of %d", p.part, p.parts);
}

static void batches(const char *text) {
    static gs_sweep sweep;
    sweep.samples = 6000;
    if (gs_sweep_batches(&sweep, text) != GS_OK) return;
    for (int i = 0; i < sweep.batches; i++)
        if (sweep.batch[i] > sweep.samples || (i > 0 && sweep.batch[i] <= sweep.batch[i - 1]))
            fuzz_wrong("batch %d is %zu", i, sweep.batch[i]);
}

FUZZ(in) {
    uint8_t what = fuzz_byte(in);
    char *text = fuzz_text(in);
    (what % 2 ? batches : devices)(text);
    free(text);
}
