#include "cpu/pool.h"
#include "tests/support/test.h"

#include <stdatomic.h>
#include <time.h>

/* A device's thread pool runs every part exactly once, for any number of threads and parts. */

enum { MOST_PARTS = 1000 };

typedef struct counts {
    int done[MOST_PARTS];
    int slow; /* the index of a slow part; -1: none */
} counts;

/* Which thread has which number in the pool: no thread may have two. */
enum { MOST_THREADS = 5 };

typedef struct numbers {
    pthread_t of[MOST_THREADS];
    atomic_int known[MOST_THREADS], wrong;
} numbers;

static void note_thread(void *context, int part) {
    numbers *n = context;
    const int thread = gs_pool_thread();
    (void)part;
    if (thread < 0 || thread >= MOST_THREADS ||
        (n->known[thread] && !pthread_equal(n->of[thread], pthread_self())))
        n->wrong++;
    else if (!n->known[thread])
        n->of[thread] = pthread_self(), n->known[thread] = 1;
}

static void sleep_ms(long ms) {
    nanosleep(&(struct timespec){0, ms * 1000000}, NULL);
}

static void count_part(void *context, int part) {
    counts *c = context;
    c->done[part]++;
    if (part == c->slow) sleep_ms(3);
}

static void run(gs_pool *pool, int parts, int slow) {
    counts c = {.slow = slow};
    gs_pool_run(pool, parts, count_part, &c);
    for (int part = 0; part < MOST_PARTS; part++)
        if (c.done[part] != (part < parts))
            fail_msg("%d threads, %d parts: part %d ran %d times", gs_pool_threads(pool), parts, part,
                     c.done[part]);
}

TEST(every_part_once) {
    for (int threads = 1; threads <= 5; threads++) {
        gs_pool *pool;
        assert_int_equal(gs_pool_create(threads, &pool), GS_OK);
        for (int i = 0; i < 500; i++) run(pool, i % 23, -1);
        run(pool, MOST_PARTS, -1);
        for (int parts = 2; parts <= 7; parts++)
            run(pool, parts, parts - 1); /* the caller must wait, and sleeps */
        sleep_ms(5);                     /* now most threads sleep; threads still awake are woken too */
        run(pool, 2 * threads, -1);
        gs_pool_free(pool);
    }
}

TEST(a_number_for_each_thread) {
    for (int threads = 1; threads <= MOST_THREADS; threads++) {
        gs_pool *pool;
        numbers n = {0};
        assert_int_equal(gs_pool_create(threads, &pool), GS_OK);
        for (int i = 0; i < 50; i++) gs_pool_run(pool, MOST_PARTS, note_thread, &n);
        assert_int_equal(n.wrong, 0);
        assert_true(n.known[0] && pthread_equal(n.of[0], pthread_self()));
        for (int i = threads; i < MOST_THREADS; i++) assert_false(n.known[i]);
        gs_pool_free(pool);
    }
}

TEST(freed_unused) {
    gs_pool *pool;
    assert_int_equal(gs_pool_create(3, &pool), GS_OK);
    gs_pool_free(pool);
    gs_pool_free(NULL);
}

typedef struct jobs_done {
    gs_jobs *jobs;
    int done, wrong; /* set by the jobs */
    int fails;       /* the index of the job that fails */
} jobs_done;

static gs_status note_job(void *context, const gs_job *job) {
    jobs_done *d = context;
    if (job->unit != d->done++) d->wrong++;
    if (job->unit % 7 == 3) sleep_ms(1);
    return job->unit == d->fails ? gs_fail(GS_E_FILE, "job %d fails", job->unit) : GS_OK;
}

/* Jobs run in order, even with a full queue or without a thread. After a job has failed, none runs, and the failed
 * job's message reaches the owner. */
TEST(jobs_in_order) {
    enum { JOBS = 50, FAILS = 20 };
    for (int room = 0; room < 10; room += 3) {
        for (int fails = -1; fails <= FAILS; fails += FAILS + 1) {
            jobs_done d = {.fails = fails};
            uint64_t ticket = 0;
            gs_status status = GS_OK;
            assert_ok(gs_jobs_create(room, &d.jobs));
            assert_int_equal(gs_jobs_have_thread(d.jobs), room > 0);
            for (int i = 0; i < JOBS && status == GS_OK; i++) {
                status = gs_jobs_give(d.jobs, (gs_job){.run = note_job, .context = &d, .unit = i}, &ticket);
                if (i % 5 == 0 && status == GS_OK) status = gs_jobs_wait(d.jobs, ticket);
                if (i % 5 == 0) assert_true(gs_jobs_is_done(d.jobs, ticket) && d.done == i + 1);
            }
            if (room > 0) status = gs_jobs_wait_for_all(d.jobs);
            assert_int_equal(status, fails < 0 ? GS_OK : GS_E_FILE);
            if (fails >= 0) assert_string_equal(gs_message(), "job 20 fails");
            assert_int_equal(d.done, fails < 0 ? JOBS : FAILS + 1);
            assert_int_equal(d.wrong, 0);
            gs_jobs_free(d.jobs);
        }
    }
    gs_jobs_free(NULL);
}

/* The first error is kept, and its message survives later errors. */
TEST(an_error_is_carried) {
    gs_error first = {0}, lost = {0};
    assert_ok(gs_error_keep(&first, GS_OK));
    assert_ok(gs_error_again(&first));
    assert_int_equal(gs_error_keep(&first, gs_fail(GS_E_FILE, "the first")), GS_E_FILE);
    assert_int_equal(gs_error_keep(&first, gs_fail(GS_E_PEER, "another")), GS_E_PEER);
    gs_error_keep(&lost, GS_E_PEER);
    assert_int_equal(gs_error_again(&first), GS_E_FILE);
    assert_string_equal(gs_message(), "the first");
    assert_true(gs_error_is_cause(&first, &lost) && !gs_error_is_cause(&lost, &first));
    assert_true(gs_error_is_cause(&lost, &(gs_error){0}) && !gs_error_is_cause(&(gs_error){0}, &lost));
}
