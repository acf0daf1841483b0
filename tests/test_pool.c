#include "cpu/pool.h"
#include "tests/test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

/* What the threads of a device's pool share out: every part once, however many threads and parts there are. */

enum { MOST_PARTS = 1000 };

typedef struct counts {
    int done[MOST_PARTS];
    int slow; /* this part takes long; -1: none */
} counts;

/* Which thread has which number in the pool: at most one each. */
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
            fail_msg("%d threads, %d parts: part %d was done %d times", gs_pool_threads(pool), parts, part,
                     c.done[part]);
}

static void every_part_once(void **state) {
    (void)state;
    for (int threads = 1; threads <= 5; threads++) {
        gs_pool *pool;
        assert_int_equal(gs_pool_create(threads, &pool), GS_OK);
        for (int i = 0; i < 500; i++) run(pool, i % 23, -1);
        run(pool, MOST_PARTS, -1);
        for (int parts = 2; parts <= 7; parts++)
            run(pool, parts, parts - 1); /* the caller must wait, and sleeps */
        sleep_ms(5);                     /* now the threads sleep */
        run(pool, 2 * threads, -1);
        gs_pool_free(pool);
    }
}

static void a_number_for_each_thread(void **state) {
    (void)state;
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

static void freed_unused(void **state) {
    (void)state;
    gs_pool *pool;
    assert_int_equal(gs_pool_create(3, &pool), GS_OK);
    gs_pool_free(pool);
    gs_pool_free(NULL);
}

GS_TESTS(pool, cmocka_unit_test(every_part_once), cmocka_unit_test(a_number_for_each_thread),
         cmocka_unit_test(freed_unused))
