/* Several ranks in one test: threads, each with a comm of its own, over any of the transports. */
#pragma once

#include "tests/support/scheme_checks.h"
#include "tests/support/test.h"

enum { GS_TEST_RANKS = 9 };

/* Which ranks there are and what connects them. */
typedef struct gs_test_layout {
    const char *name;
    int processes;              /* threads that behave as processes; 0: one process */
    int workers[GS_TEST_RANKS]; /* how many each of them holds; of one process only the first counts */
} gs_test_layout;

/* What connects processes: "gloo" (NULL), "shm", or "two-level", with two processes on each machine. A test that sets
 * it sets it back. */
extern const char *gs_test_transport;

/* Over which links they talk; NULL: none. Likewise. */
extern const gs_link *gs_test_link;

int gs_test_layout_size(const gs_test_layout *);

/* What a rank does; returns GS_OK or fails with a message. Its comm is freed when it returns. */
typedef gs_status (*gs_test_body)(gs_comm *, void *context);

typedef struct gs_test_outcome {
    gs_status status;
    char message[1024];
} gs_test_outcome;

/* Run `body` on every rank; outcome[rank] is what became of it. */
void gs_test_run_ranks(const gs_test_layout *, double timeout, gs_test_body body, void *context,
                       gs_test_outcome *outcome);

/* The same, and every rank succeeds; where the layout has processes, over both transports. */
void gs_test_ranks_ok(const gs_test_layout *, gs_test_body body, void *context);

/* The same in the checking mode. */
void gs_test_ranks_checked_ok(const gs_test_layout *, gs_test_body body, void *context);

/* The same as gs_test_ranks_ok, over this transport alone. */
void gs_test_ranks_ok_over(const char *transport, const gs_test_layout *, gs_test_body body, void *context);

/* Run `body` over this transport, without a wish that it succeeds. */
void gs_test_run_ranks_over(const char *transport, const gs_test_layout *, double timeout, gs_test_body body,
                            void *context, gs_test_outcome *outcome);

/* Run `body` on `local` threads of this process, as ranks of the world that `processes` connects (taken over;
 * NULL: only this process). outcome[rank] is filled for those ranks, and *first is the first of them. */
gs_status gs_test_run_process(gs_comm *processes, int local, double timeout, bool checked, gs_test_body body,
                              void *context, gs_test_outcome *outcome, int *first);

/* Bodies by name, each for any transport; a NULL ends the list. Their context is the layout. */
typedef struct gs_test_check {
    const char *name;
    gs_test_body body;
} gs_test_check;
extern const gs_test_check gs_test_collective_checks[]; /* test_collectives.c */
/* `gradsum collectives` of the arguments behind argv[0], the collective whose results are wrong. */
int gs_test_wrong_collectives(int argc, char **argv);
extern char gs_test_few; /* as their context: not every pair of a type and a reduction */
extern const gs_test_check gs_test_comm_checks[]; /* test_comm.c */

/* A body, for any transport between processes: messages of all lengths go around the ring, two under way, longer ones
 * after shorter ones and shorter ones after longer ones. */
gs_status gs_test_messages_of_all_lengths(gs_comm *, void *context);

/* For bodies (RANK_CHECK is in scheme_checks.h, because cmocka's own assertions work in the main thread only):
 * memory that is freed when the body returns. */
void *gs_test_scratch(size_t bytes);
