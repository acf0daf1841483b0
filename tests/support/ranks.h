/* Several ranks in one test: threads, each with its own comm, over any transport. */
#pragma once

#include "tests/support/scheme_checks.h"
#include "tests/support/test.h"

enum { GS_TEST_RANKS = 9 };

/* Which ranks there are and what connects them. */
typedef struct gs_test_layout {
    const char *name;
    int processes;              /* threads that act as processes; 0: one process */
    int workers[GS_TEST_RANKS]; /* ranks of each process; for one process only the first counts */
} gs_test_layout;

/* What connects processes: "gloo" (NULL), "shm", or "two-level", with two processes per machine. A test that sets it
 * must restore it. */
extern const char *gs_test_transport;

/* The simulated links between ranks; NULL: none. A test that sets it must restore it. */
extern const gs_link *gs_test_link;

int gs_test_layout_size(const gs_test_layout *);

/* What a rank does. It returns GS_OK or fails with a message. Its comm is freed when it returns. */
typedef gs_status (*gs_test_body)(gs_comm *, void *context);

typedef struct gs_test_outcome {
    gs_status status;
    char message[1024];
} gs_test_outcome;

/* Runs `body` on every rank; outcome[rank] receives the result. */
void gs_test_run_ranks(const gs_test_layout *, double timeout, gs_test_body body, void *context,
                       gs_test_outcome *outcome);

/* The same, but every rank must succeed. Layouts with several processes run over gloo and over shm. */
void gs_test_ranks_ok(const gs_test_layout *, gs_test_body body, void *context);

/* The same in checking mode. */
void gs_test_ranks_checked_ok(const gs_test_layout *, gs_test_body body, void *context);

/* The same as gs_test_ranks_ok, over this transport only. */
void gs_test_ranks_ok_over(const char *transport, const gs_test_layout *, gs_test_body body, void *context);

/* Runs `body` over this transport; it may fail. */
void gs_test_run_ranks_over(const char *transport, const gs_test_layout *, double timeout, gs_test_body body,
                            void *context, gs_test_outcome *outcome);

/* Runs `body` on `local` threads of this process, as ranks of the world that `processes` connects. Takes over
 * `processes`; NULL: only this process. Fills outcome[rank] for its ranks; *first is the lowest of these. */
gs_status gs_test_run_process(gs_comm *processes, int local, double timeout, bool checked, gs_test_body body,
                              void *context, gs_test_outcome *outcome, int *first);

/* Named bodies that work over any transport; NULL ends a list. Their context is the layout. */
typedef struct gs_test_check {
    const char *name;
    gs_test_body body;
} gs_test_check;
extern const gs_test_check gs_test_collective_checks[]; /* test_collectives.c */
/* `gradsum collectives` with the arguments after argv[0]; argv[0] names the collective whose results are made wrong. */
int gs_test_wrong_collectives(int argc, char **argv);
extern char gs_test_few; /* a context for them: test fewer pairs of a type and a reduction */
extern const gs_test_check gs_test_comm_checks[]; /* test_comm.c */

/* A body for any transport between processes: messages of all lengths go around a ring, two in flight at a time, both
 * longer after shorter ones and shorter after longer ones. */
gs_status gs_test_messages_of_all_lengths(gs_comm *, void *context);

/* Memory for bodies, freed when the body returns. Bodies use RANK_CHECK of scheme_checks.h, because cmocka's assertions
 * work only in the main thread. */
void *gs_test_scratch(size_t bytes);
