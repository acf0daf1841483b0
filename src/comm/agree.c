/* What must be the same on all processes before their workers send the first message: see gs_comm_agree in comm.h. */
#include "comm/comm.h"
#include "core/machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    CHECK,
    FAULT,
    LINK,
    SETTINGS,
    TEXT = 2048 /* bytes: the longest GRADSUM_FAULT that makes sense fits */
};

typedef struct wishes {
    char text[SETTINGS][TEXT];
    double machine; /* core/machine.h: then its clock is the same too */
} wishes;

static const char *value_of(const char *variable) {
    const char *value = getenv(variable);
    return value && *value && strcmp(value, "0") != 0 ? value : "none";
}

static gs_status compare(const wishes *all, int size) {
    static const char *const names[SETTINGS] = {"GRADSUM_CHECK", "GRADSUM_FAULT", "--link"};
    for (int i = 0; i < SETTINGS; i++)
        for (int p = 1; p < size; p++)
            if (strncmp(all[p].text[i], all[0].text[i], TEXT) != 0)
                return gs_fail(GS_E_USAGE,
                               "process %d and process 0 differ in %s (%.80s versus %.80s): set the same for "
                               "all processes",
                               p, names[i], all[p].text[i], all[0].text[i]);
    for (int p = 1; p < size; p++)
        if (strncmp(all[0].text[LINK], "none", TEXT) != 0 && all[p].machine != all[0].machine)
            return gs_fail(
                GS_E_USAGE,
                "--link needs all processes on one machine: process %d runs on another than process 0", p);
    return GS_OK;
}

gs_status gs_comm_agree(gs_comm *processes, const gs_link *link) {
    wishes mine = {.machine = gs_machine()}, *all = calloc((size_t)processes->size, sizeof *all);
    if (!all) return gs_fail(GS_E_MEMORY, "no memory for the settings of %d processes", processes->size);
    snprintf(mine.text[CHECK], TEXT, "%s", value_of("GRADSUM_CHECK"));
    snprintf(mine.text[FAULT], TEXT, "%s", value_of("GRADSUM_FAULT"));
    gs_link_text(link, mine.text[LINK], TEXT);
    gs_status status = gs_comm_all_gather(processes, &mine, all, sizeof mine, GS_U8);
    if (status == GS_OK) status = compare(all, processes->size);
    free(all);
    return status;
}
