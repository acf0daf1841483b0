#include "train/options/every.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/units.h"

static const uint64_t STEPS_MOST = 1000000000000000; /* as of --steps */
static const double SECONDS_LEAST = 0.001, SECONDS_MOST = 1e6;

bool gs_checkpoint_every_read(const char *text, gs_checkpoint_every *out) {
    gs_checkpoint_every e = {0};
    const size_t digits = strspn(text, "0123456789");
    const bool counts = digits > 0 && digits <= 16 && !text[digits];
    if (counts)
        e.steps = strtoull(text, NULL, 10);
    else if (!gs_unit_read(&text, gs_units_time, &e.seconds) || *text)
        return false;
    if (counts ? e.steps < 1 || e.steps > STEPS_MOST
               : !(e.seconds >= SECONDS_LEAST && e.seconds <= SECONDS_MOST))
        return false;
    *out = e;
    return true;
}

const char *gs_checkpoint_every_text(const gs_checkpoint_every *e, char *text, size_t size) {
    const bool timed = !(e->seconds <= 0 && e->seconds >= 0);
    char time[40];
    gs_unit_print(timed ? e->seconds : GS_CHECKPOINT_SECONDS, gs_units_time, time, sizeof time);
    if (e->steps > 0)
        snprintf(text, size, "%" PRIu64 "%s%s", e->steps, timed ? "," : "", timed ? time : "");
    else
        snprintf(text, size, "%s", time);
    return text;
}
