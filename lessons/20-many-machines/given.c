/* Lab 20, as given: --sync hierarchical is 20.2, for LAB_EACH ranks on each host (8; the environment may say another
 * number). If they do not come out even, all are one host. */
#include "tasks.h"

#include <stdlib.h>

static gs_status sum(gs_sync *s, float *data, size_t count) {
    const char *text = getenv("LAB_EACH");
    const int wanted = text ? atoi(text) : 8, size = s->comm->size;
    return hierarchical_sum(s, wanted > 0 && size % wanted == 0 ? wanted : size, data, count);
}

static const gs_sync_scheme hierarchical = {
    .name = "hierarchical", .what = "lab 20: inside of hosts, and between them", .sum = sum};

void lab_install(void) {
    gs_sync_replace("hierarchical", &hierarchical);
}
