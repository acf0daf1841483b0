/* launch --elastic MIN:MAX: when a rank was lost, the processes that are left go on, without a checkpoint.
 *
 *     generation 1   processes a b c d    ranks 0 1 2 3      c is killed in step 57
 *     generation 2   processes a b d      ranks 0 1 2        the others repeat it (train/elastic/carry.h)
 *                    process  e           rank  3            new, where MAX allows: it gets the state from rank 0
 *
 * The launcher waits until every process has noticed the loss (board.h); one that hangs is killed. Then it begins the
 * next generation with those that are left, and starts new ones until there are MAX. With --exact there must be 1, 2, 4
 * or 8 of them: surplus ones are let go, and end with 0. The run ends as without --elastic if fewer than MIN are left,
 * if some have done their work already, if two generations in turn make no step, or if a rank ends for wrong usage,
 * which the next generation would repeat.
 */
#pragma once

#include "cli/launch/launch_state.h"

/* "2:4" or "2". False: it is neither. */
bool gs_elastic_read(const char *text, int *min, int *max);

/* GS_E_USAGE: --elastic does not go with the rest of the launch. */
gs_status gs_elastic_check(const gs_launch *);

/* How many ranks the next generation has, with so many survivors and room for so many new ones; 0: too few. exact: the
 * run is. */
int gs_elastic_size(const gs_launch *, bool exact, int survivors, int room);

/* Before the processes are started: s->board, s->elastic. GS_E_MEMORY. */
gs_status gs_elastic_create(gs_launch_state *);
void gs_elastic_free(gs_launch_state *); /* with the folder of its last generation */

/* Not all processes could be started: none of them goes on. Nothing happens without --elastic. */
void gs_elastic_give_up(gs_launch_state *);

/* This child has ended in another way than with 0. */
void gs_elastic_lost(gs_launch_state *, int seat);

/* Have some processes ended with 0, their work being done? */
bool gs_elastic_is_ending(const gs_launch_state *);

/* No process is left. If one was lost at the end, when others had done their work, that is a failure. */
void gs_elastic_close(gs_launch_state *);

/* Now and then. Is a generation about to begin, so that this should be called again soon? */
bool gs_elastic_look(gs_launch_state *);
