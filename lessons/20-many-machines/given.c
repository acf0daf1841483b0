/* Lab 20, as given: --sync hierarchical is 20.2, with 8 ranks on each host, or LAB_EACH (an environment variable). If
 * that does not divide the ranks, all are one host. */
#include "tasks.h"

#include <stdlib.h>

static gs_status sum(gs_sync *s, float *data, size_t count) {
    const char *text = getenv("LAB_EACH");
    const int wanted = text ? atoi(text) : 8, size = s->comm->size;
    return hierarchical_sum(s, wanted > 0 && size % wanted == 0 ? wanted : size, data, count);
}

static const gs_sync_scheme hierarchical = {
    .name = "hierarchical", .what = "lab 20: inside hosts, and between them", .sum = sum};

void lab_install(void) {
    gs_sync_replace("hierarchical", &hierarchical);
}
