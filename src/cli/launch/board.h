/* launch --elastic: memory in which the launcher and its processes tell each other who goes on when one was lost. The
 *
 *
 *     process                                              launcher
 *     it has lost a rank, and asks           ->            waits until each process has asked, or ended
 *     goes on as rank R of N, or ends        <-            the next generation: who has which rank, where they meet
 *
 * Numbers of generations begin with 1. A memfd: nothing can be left behind.
 */
#pragma once

#include "cli/launch/launch.h"
#include "comm/comm.h"

typedef struct gs_elastic_board gs_elastic_board;

/* ---- the launcher ---- */

/* Processes that it starts inherit it. NULL: it cannot be made. */
gs_elastic_board *gs_elastic_board_create(void);
void gs_elastic_board_free(gs_elastic_board *); /* NULL is allowed */

int gs_elastic_board_generation(const gs_elastic_board *);
/* The last generation that has made a step. */
int gs_elastic_board_stepped(const gs_elastic_board *);
/* Has a process said that the run is exact? */
bool gs_elastic_board_is_exact(const gs_elastic_board *);
/* Has the process that is child `seat` of the launcher asked for the generation after this one? */
bool gs_elastic_board_asks(const gs_elastic_board *, int seat);

/* Begin this generation. rank[seat]: -1: this process is let go. meet: a folder. */
void gs_elastic_board_begin(gs_elastic_board *, int generation, int size, const int *rank, const char *meet);

/* There will be no other. */
void gs_elastic_board_end(gs_elastic_board *);

/* Put into the environment what the process that is started next finds there. */
bool gs_elastic_board_set(const gs_elastic_board *, int seat);

/* ---- a process ---- */

/* Was it started by an elastic launch? */
bool gs_elastic_board_is_there(void);

typedef enum gs_elastic_board_answer {
    GS_BOARD_ENDS,
    GS_BOARD_GOES_ON,
    GS_BOARD_LETS_GO
} gs_elastic_board_answer;

/* It has lost a rank. GS_BOARD_GOES_ON: *r is what it is in the next generation; its texts are static. */
gs_elastic_board_answer gs_elastic_board_next(gs_rendezvous *r);

/* The run is exact, and goes on with as many ranks as that takes. --resume may take it from a file. */
void gs_elastic_board_say_exact(void);

/* Does this generation have other ranks than the launch began with? */
bool gs_elastic_board_is_later(void);

/* Rank 0 has made a step. */
void gs_elastic_board_has_stepped(void);
