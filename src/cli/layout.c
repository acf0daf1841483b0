/* The devices of the workers with which a layout is shown or measured. */
#include "cli/cli.h"
#include "core/text.h"

#include <stdio.h>
#include <stdlib.h>

enum { NAME = 48 };

gs_status gs_devices_for(const gs_settings *s, int workers, int most, char **list) {
    const int given = gs_devices_count(s->devices);
    const size_t size = (size_t)workers * NAME + 1;
    gs_status status = GS_OK;
    *list = NULL;
    if (workers > most)
        return gs_fail(GS_E_USAGE, "the layout has %d workers; wanted at most %d here", workers, most);
    if (given != 1 && given != workers)
        return gs_fail(GS_E_USAGE, "--devices names %d devices for %d worker%s; wanted one, or %d", given,
                       workers, gs_s((unsigned)workers), workers);
    GS_TRY(GS_NEW(*list, size, "the names of %d devices", workers));
    for (int i = 0; i < workers && status == GS_OK; i++) {
        char one[NAME] = "";
        status = gs_devices_name(s->devices, given > 1 ? i : 0, one);
        gs_append(*list, size, "%s%s", i > 0 ? "," : "", one);
    }
    if (status == GS_OK) return GS_OK;
    free(*list);
    *list = NULL;
    return status;
}
