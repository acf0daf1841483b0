/* launch --restarts N: when a rank was lost, all ranks start again, in a new attempt.
 *
 *     attempt 1   steps 1 .. 40 | checkpoint | 41 .. 57 X              rank 2 is killed, and the others end
 *     attempt 2                                41 .. 57 .. 80          with --resume auto
 *
 * The folder is that of the command's --checkpoint; without one, or before the first checkpoint, an attempt begins as
 * the first did. Training is deterministic and a checkpoint has all that it needs (train/state.h), so the last attempt
 * ends with the bits of a run in which no rank was lost.
 *
 * What would fail again is not started again: bad usage, weights that have diverged or differ, what a rank finds wrong
 * before the first step, and two losses in turn without a step between them. Nor is what was asked to stop.
 *
 * Each attempt is new to the command: it has a folder to meet in, and `--log DIR` and `--digest DIR` become
 * DIR-restart-1 and so on, because the first attempt has written into DIR.
 */
#pragma once

#include <stddef.h>

#include "cli/launch/launch.h"

/* How an attempt has failed. */
typedef struct gs_launch_failure {
    bool lost;      /* a rank was killed, hung, or was cut off */
    gs_status code; /* else: what a rank says is wrong; GS_OK: none has said anything */
    bool stepped;   /* the attempt has made a step */
} gs_launch_failure;

typedef struct gs_restarts gs_restarts;

/* GS_E_USAGE: this option is not for several nodes; the message says what starts those again. */
gs_status gs_launch_check_one_node(const gs_launch *, const char *option);

/* GS_E_USAGE: --restarts does not go with the rest of the launch. */
gs_status gs_restarts_check(const gs_launch *);

/* The launch must live as long. Before the first attempt. GS_E_MEMORY. */
gs_status gs_restarts_create(const gs_launch *, gs_restarts **out);
void gs_restarts_free(gs_restarts *); /* NULL is allowed */

/* The launch of this attempt. */
const gs_launch *gs_restarts_attempt(const gs_restarts *);

/* An attempt has failed: is there another? *what: where that goes on, or why there is none, to stand after the failure:
 * "; restart 1 of 3: it goes on after step 40 (...)"; without --restarts "". */
bool gs_restarts_next(gs_restarts *, const gs_launch_failure *, char *what, size_t size);
