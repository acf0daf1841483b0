/* What the files simulate_*.c share: `gradsum simulate`. */
#pragma once

#include "train/simulate/failures.h"
#include "train/simulate/simulate.h"

enum { GS_CURVE = 40 /* points at most */ };

typedef struct gs_simulate_answer {
    gs_simulation sim; /* settled */
    gs_simulated_work work;
    gs_simulated result;
    gs_simulated curve[GS_CURVE];
    int points;
    bool has_failures;
    gs_failures failures;
    gs_failures_cost cost;
} gs_simulate_answer;

void gs_simulate_print(const gs_simulate_answer *);
struct cJSON;
struct cJSON *gs_simulate_json(const gs_simulate_answer *, bool timeline);

/* GS_E_FILE: it cannot be written. */
gs_status gs_simulate_page(const gs_simulate_answer *, const char *path);

/* "3.2 h": in the largest unit of which there is at least one. In a buffer of this thread's; four may be in use. */
const char *gs_simulate_time(double seconds);
