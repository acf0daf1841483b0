/* gradsum profile with a layout: beside what one worker takes alone, what several send each other. */
#pragma once

#include "cli/cli.h"
#include "train/profile/profile_calls.h"

struct cJSON;

enum { GS_PROFILE_WORKERS = 64 }; /* of a layout, at most */

typedef struct gs_profile_layout {
    bool wanted;
    char name[GS_LAYOUT_TEXT]; /* "dp2,zero3" */
    gs_profile_calls calls;
} gs_profile_layout;

/* Is there one in these settings? Settles it. workers: 0, or as --workers says. GS_E_USAGE: options that need a
 * layout, without one. */
gs_status gs_profile_layout_settle(gs_settings *, int workers, int argc, char **argv, gs_profile_layout *);

/* The same settings for one worker, on the first device. device: room for its name. */
gs_status gs_profile_layout_alone(const gs_settings *, char device[48], gs_settings *one);

/* Make the run. Fails as gs_train would. */
gs_status gs_profile_layout_run(const gs_settings *, int workers, gs_profile_layout *);

void gs_profile_layout_print(const gs_profile_layout *);
struct cJSON *gs_profile_layout_json(const gs_profile_layout *);
