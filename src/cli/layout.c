/* The workers with which a layout is shown or measured: how many, and on which devices. */
#include "cli/cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME = 48 };

static gs_status join_names(const gs_settings *s, int workers, int given, char *text, size_t size) {
    size_t used = 0;
    for (int i = 0; i < workers; i++) {
        char one[NAME];
        GS_TRY(gs_devices_name(s->devices, given > 1 ? i : 0, one));
        used += (size_t)snprintf(text + used, size - used, "%s%s", i > 0 ? "," : "", one);
    }
    return GS_OK;
}

gs_status gs_devices_for(const gs_settings *s, int workers, int most, char **list) {
    const int given = gs_devices_count(s->devices);
    const size_t size = (size_t)workers * NAME + 1;
    *list = NULL;
    if (workers > most)
        return gs_fail(GS_E_USAGE, "the layout has %d workers; wanted at most %d here", workers, most);
    if (given != 1 && given != workers)
        return gs_fail(GS_E_USAGE, "--devices names %d devices for %d worker%s; wanted one, or %d", given,
                       workers, gs_s((unsigned)workers), workers);
    char *text = calloc(1, size);
    if (!text) return gs_fail(GS_E_MEMORY, "no memory for the names of %d devices", workers);
    const gs_status status = join_names(s, workers, given, text, size);
    if (status == GS_OK)
        *list = text;
    else
        free(text);
    return status;
}

int gs_layout_workers(const gs_settings *s, int given) {
    const int named = gs_devices_count(s->devices), stages = s->pipeline > 1 ? s->pipeline : 1,
              parts = s->tensor > 1 ? s->tensor : 1;
    gs_layout l;
    if (given) return given;
    if (named > 1) return named;
    if (s->layout && gs_layout_read(s->layout, &l) == GS_OK) return l.dp * l.tp * l.pp;
    return stages * parts > 1 ? stages * parts : 2;
}
