/* How often a run makes a checkpoint: every 100 steps, or every 60 seconds. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct gs_checkpoint_every {
    uint64_t steps; /* 0: by time */
    double seconds; /* both 0: GS_CHECKPOINT_SECONDS */
} gs_checkpoint_every;

#define GS_CHECKPOINT_SECONDS 60.0

/* "100", "60s", "500ms". False: it is neither, or out of range. */
bool gs_checkpoint_every_read(const char *text, gs_checkpoint_every *);
const char *gs_checkpoint_every_text(const gs_checkpoint_every *, char *text, size_t size);
