/* The profiles of several workers that are measured at the same time. */
#include <stdlib.h>

#include "comm/ranks.h"
#include "core/cores.h"
#include "train/profile/profile.h"

typedef struct crew {
    const gs_settings *settings;
    int all;
    double seconds;
    gs_profile *profile; /* [all] */
} crew;

/* All begin at the same time, each on its share of the cores, and measure the same for as long. */
static gs_status measure(void *context, int number, gs_comm **comm) {
    const crew *c = context;
    (void)gs_cores_bind_share(number, c->all);
    GS_TRY(gs_comm_barrier(*comm));
    return gs_profile_run(c->settings, c->seconds, &c->profile[number]);
}

gs_status gs_profile_run_at_once(const gs_settings *s, int workers, double seconds, gs_profile *out) {
    crew c = {s, workers, seconds, calloc((size_t)workers, sizeof *c.profile)};
    double speeds = 0;
    *out = (gs_profile){0};
    if (!c.profile) return gs_fail(GS_E_MEMORY, "no memory to measure %d workers", workers);
    const gs_status status = gs_ranks_run(workers, GS_TIMEOUT, measure, &c);
    for (int i = 0; i < workers; i++) {
        speeds += c.profile[i].step / workers;
        if (i > 0 || status != GS_OK) gs_profile_free(&c.profile[i]);
    }
    if (status == GS_OK) *out = c.profile[0];
    if (status == GS_OK) out->step = speeds;
    free(c.profile);
    return status;
}
