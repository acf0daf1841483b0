/* What --elastic MIN:MAX asks for: what it goes with, and how many ranks the next generation has. */
#include <stdio.h>
#include <string.h>

#include "cli/launch/elastic.h"

bool gs_elastic_read(const char *text, int *min, int *max) {
    int used = 0;
    *max = 0;
    if (sscanf(text, "%6d%n", min, &used) == 1 && text[used] == '\0') return *min >= 1;
    used = 0;
    if (sscanf(text, "%6d:%6d%n", min, max, &used) != 2 || used == 0 || text[used] != '\0') return false;
    return *min >= 1 && *max >= *min;
}

gs_status gs_elastic_check(const gs_launch *l) {
    int min, max;
    if (!l->elastic) return GS_OK;
    if (!gs_elastic_read(l->elastic, &min, &max))
        return gs_fail(GS_E_USAGE,
                       "--elastic: '%s' is not MIN or MIN:MAX, how many processes at least go on, and up to "
                       "how many new ones are started",
                       l->elastic);
    GS_TRY(gs_launch_check_one_node(l, "--elastic"));
    if (l->meet)
        return gs_fail(GS_E_USAGE,
                       "--elastic: the processes meet again in a folder of their own; leave --meet out");
    if (min > l->size || max > l->size)
        return gs_fail(GS_E_USAGE, "--elastic %s: more than the %d processes of -n", l->elastic, l->size);
    if (l->restarts > 0)
        return gs_fail(GS_E_USAGE,
                       "--elastic goes on with the processes that are left, --restarts starts all again; use "
                       "only one of them");
    if (strcmp(l->command[0], "train") != 0)
        return gs_fail(GS_E_USAGE, "--elastic is for train; '%s' has nothing to go on with", l->command[0]);
    return GS_OK;
}

int gs_elastic_size(const gs_launch *l, bool exact, int survivors, int room) {
    int min = 1, max = 0;
    gs_elastic_read(l->elastic, &min, &max);
    if (survivors < min) return 0;
    int size = survivors >= max ? survivors : survivors + room < max ? survivors + room : max;
    while (exact && size > 0 && (size & (size - 1)) != 0) size--;
    while (exact && size > 8) size /= 2;
    return size < min ? 0 : size;
}
