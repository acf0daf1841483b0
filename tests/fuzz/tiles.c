/* The sizes of tiles, as `gradsum tune` keeps them. */
#include <stdlib.h>
#include <string.h>
#include "cl/cl.h"
#include "fuzz.h"

FUZZ(in) {
    char *text = fuzz_text(in), again[GS_CL_TILES_TEXT];
    gs_cl_tiles t = gs_cl_tiles_default(false, 8), same;
    if (gs_cl_tiles_parse(text, &t)) {
        gs_cl_tiles_print(&t, again);
        same = t;
        if (!gs_cl_tiles_parse(again, &same) || memcmp(&same, &t, sizeof t) != 0)
            fuzz_wrong("'%s' is written as '%s'", text, again);
    }
    free(text);
}
