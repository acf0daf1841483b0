/* Scheme "auto". Only for src/sync/. */
#pragma once

#include "sync/sync.h"

/* Measure, choose sync->scheme for sums of sync->most floats, the same on every rank, and say why. */
gs_status gs_sync_choose(gs_sync *);
