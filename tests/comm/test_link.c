/* --link: messages take the time that the model predicts, and nothing else changes. Only lower bounds are checked,
 * because a busy machine may lengthen a sleep but never shortens it. */
#include "tests/support/ranks.h"
#include "tests/support/training.h"

#include <math.h>
#include "core/clock.h"

static const gs_test_layout layouts[] = {{"2 threads", 0, {2}},
                                         {"3 threads", 0, {3}},
                                         {"4 processes", 4, {1, 1, 1, 1}},
                                         {"processes of 1 and 3 threads", 2, {1, 3}}};
enum { LAYOUTS = sizeof layouts / sizeof *layouts };

/* ---- the option ---- */

TEST(links_are_read_and_printed) {
    static const struct {
        const char *typed, *printed;
        double latency, bandwidth;
    } cases[] = {
        {"50us,125MB/s", "50us,125MB/s", 50e-6, 125e6},
        {"1ms,1Gbit/s", "1ms,125MB/s", 1e-3, 125e6},
        {"0us,1B/s", "0us,1B/s", 0, 1},
        {"1.5ms,2.5kB/s", "1.5ms,2.5kB/s", 1.5e-3, 2500},
        {"10s,1000GB/s", "10s,1000GB/s", 10, 1e12},
        {"1000us,8kbit/s", "1ms,1kB/s", 1e-3, 1e3},
        {"0.1ms,100Mbit/s", "100us,12.5MB/s", 1e-4, 12.5e6},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gs_link l;
        char text[80];
        assert_true(gs_link_read(cases[i].typed, &l));
        assert_near(l.latency, cases[i].latency, 0, 1e-12);
        assert_near(l.bandwidth, cases[i].bandwidth, 0, 1e-12);
        assert_string_equal(gs_link_text(&l, text, sizeof text), cases[i].printed);
    }
}

TEST(other_texts_are_refused) {
    static const char *const wrong[] = {
        "",         "5",           "50us",          "50us,",        "50us;1MB/s",
        "us,MB/s",  "50,125MB/s",  "50us,125",      "50us,125mb/s", "-1us,1MB/s",
        "11s,1B/s", "0us,0.5B/s",  "1us,1001GB/s",  "1us,1MB/sx",   "1.2.3us,1B/s",
        "1us,inf",  "0x1us,1MB/s", "1us,1MB/s,1us", " 1us,1MB/s"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        gs_link l = {7, 7};
        if (gs_link_read(wrong[i], &l)) fail_msg("'%s' was accepted", wrong[i]);
        assert_true(l.latency == 7); /* unchanged */
    }
    assert_prints(2, "--link: '5' is not LATENCY,BANDWIDTH, such as 50us,125MB/s; 0us to 10s (us, ms, s)",
                  "train --link 5");
    assert_prints(2,
                  "a transport's own scheme hides them from it: it does not work with --sync gloo; wanted "
                  "another scheme",
                  "train --link 1ms,1MB/s --sync gloo --devices cpu,cpu");
}

/* ---- a line ---- */

TEST(a_line_carries_one_message_at_a_time) {
    gs_port p = {0};
    assert_true(gs_port_take(&p, 10, 4) == 10); /* 10 - 14 */
    assert_true(gs_port_take(&p, 10, 2) == 14); /* queued: 14 - 16 */
    assert_true(gs_port_take(&p, 20, 5) == 20); /* 20 - 25 */
    assert_true(gs_port_take(&p, 3, 7) == 3);   /* requested later, but starts earlier: 3 - 10 */
    assert_true(gs_port_take(&p, 3, 4) == 16);  /* into the gap: 16 - 20 */
    assert_true(gs_port_take(&p, 1, 3) == 25);  /* too long for the rest of the first gap */
    assert_true(gs_port_take(&p, 1, 2) == 1);
    assert_true(gs_port_take(&p, 12, 0) == 20); /* of length zero, between two messages */
}

/* Time that the port has forgotten counts as busy, so a message is late rather than early. */
TEST(a_line_forgets_safely) {
    gs_port p = {0};
    for (int i = 0; i < 3 * GS_PORT_BUSY; i++) assert_true(gs_port_take(&p, 10 * i + 10, 1) == 10 * i + 10);
    assert_int_equal(p.count, GS_PORT_BUSY);
    double first = p.from[0];
    assert_true(first > 100);
    double before = p.before;
    assert_true(gs_port_take(&p, 0, 1) >= before);
    for (int i = 1; i < p.count; i++) assert_true(p.from[i] >= p.to[i - 1]);
    assert_true(gs_port_take(&p, 0, 1000) >= 10 * 3 * GS_PORT_BUSY + 1);
}

/* ---- messages and collectives ---- */

static const gs_link fast = {20e-6, 10e9};

static void over_links(const gs_link *link, const gs_test_layout *layout, gs_test_body body, void *context) {
    gs_test_link = link;
    gs_test_ranks_ok(layout, body, context);
    gs_test_link = NULL;
}

TEST(every_result_is_as_without_links) {
    for (int i = 1; i < LAYOUTS; i += 2) {
        void *layout = (void *)&layouts[i];
        for (const gs_test_check *c = gs_test_comm_checks; c->name; c++)
            over_links(&fast, &layouts[i], c->body, layout);
        over_links(&fast, &layouts[i], gs_test_collective_checks[0].body, layout);
        over_links(&fast, &layouts[i], gs_test_messages_of_all_lengths, layout);
    }
    gs_test_link = &fast;
    gs_test_ranks_checked_ok(&layouts[1], gs_test_messages_of_all_lengths, NULL);
    gs_test_link = NULL;
}

/* The latency is 5 ms, and 40 KB take 4 ms. */
static const gs_link slow = {5e-3, 10e6};
enum { BYTES = 40000 };

/* The time from the first rank's start to the last rank's end. */
static gs_status took(gs_comm *c, double start, double *seconds) {
    double latest[2] = {gs_seconds(), -start};
    GS_TRY(gs_comm_all_reduce(c, latest, 2, GS_F64, GS_MAX));
    *seconds = latest[0] + latest[1];
    return GS_OK;
}

#define TAKES_AT_LEAST(start, least, what)                                                                   \
    do {                                                                                                     \
        double seconds;                                                                                      \
        GS_TRY(took(c, start, &seconds));                                                                    \
        RANK_CHECK(seconds >= (least), "%s took %g s, wanted at least %g", what, seconds, least);            \
    } while (0)

/* Messages queue on a line, while latencies overlap: all ranks send to rank 0, and rank 0 sends to all. */
static gs_status lines_are_shared(gs_comm *c, void *context) {
    unsigned char *data = gs_test_scratch(BYTES);
    const double alpha = slow.latency, message = BYTES / slow.bandwidth;
    (void)context;
    double start = gs_seconds();
    if (c->rank > 0) GS_TRY(gs_comm_send(c, data, BYTES, 0));
    for (int r = 1; r < c->size && c->rank == 0; r++) GS_TRY(gs_comm_recv(c, data, BYTES, r));
    TAKES_AT_LEAST(start, alpha + (c->size - 1) * message, "rank 0's line in");

    start = gs_seconds();
    for (int r = 1; r < c->size && c->rank == 0; r++) GS_TRY(gs_comm_send(c, data, BYTES, r));
    if (c->rank > 0) GS_TRY(gs_comm_recv(c, data, BYTES, 0));
    TAKES_AT_LEAST(start, alpha + (c->size - 1) * message, "rank 0's line out");

    start = gs_seconds();
    GS_TRY(gs_comm_barrier(c));
    GS_TRY(gs_comm_barrier(c));
    TAKES_AT_LEAST(start, 2 * alpha, "two barriers"); /* each takes at least one latency */

    start = gs_seconds();
    GS_TRY(gs_comm_all_gather(c, data, gs_test_scratch((size_t)c->size * BYTES), BYTES, GS_U8));
    TAKES_AT_LEAST(start, (c->size - 1) * (alpha + message), "all_gather");
    return GS_OK;
}

TEST(messages_take_their_time) {
    for (int i = 0; i < LAYOUTS; i++) over_links(&slow, &layouts[i], lines_are_shared, NULL);
}

/* A worker can compute while a message is in flight, so waiting must use no CPU time. */
static gs_status waiting_leaves_the_core(gs_comm *c, void *context) {
    struct timespec used[2];
    const gs_link *link = context;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used[0]);
    double start = gs_seconds();
    GS_TRY(gs_comm_barrier(c));
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used[1]);
    /* measured from the first rank's start, because a rank that arrives late waits less */
    TAKES_AT_LEAST(start, link->latency, "a barrier");
    double cpu =
        (double)(used[1].tv_sec - used[0].tv_sec) + 1e-9 * (double)(used[1].tv_nsec - used[0].tv_nsec);
    RANK_CHECK(cpu < link->latency / 2, "waiting took %g s of CPU time", cpu);
    return GS_OK;
}

TEST(the_core_is_free_meanwhile) {
    static gs_link late = {0.2, 1e9};
    over_links(&late, &layouts[0], waiting_leaves_the_core, &late);
}

/* ---- schemes ---- */

/* Schemes compute the sum and take (rounds alpha + bytes beta) seconds along the longest path of the data. */
static gs_status schemes(gs_comm *c, void *context) {
    static const struct {
        const gs_sync_scheme *scheme;
        double alphas, arrays; /* for 4 ranks */
    } cases[] = {
        {&gs_sync_ps, 2, 6},       {&gs_sync_sharded_ps, 2, 1.5},       {&gs_sync_ring, 6, 1.5},
        {&gs_sync_tree, 4, 4},     {&gs_sync_recursive_doubling, 2, 2}, {&gs_sync_halving_doubling, 4, 1.5},
        {&gs_sync_allreduce, 3, 5}};
    enum { COUNT = BYTES / sizeof(float) };
    (void)context;
    float *data = gs_test_scratch(BYTES);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gs_sync *s;
        GS_TRY(gs_sync_create(cases[i].scheme, c, COUNT, &s));
        for (size_t k = 0; k < COUNT; k++) data[k] = (float)((size_t)c->rank + k % 7);
        double start = gs_seconds();
        gs_status status = gs_sync_run(s, data, COUNT);
        gs_sync_free(s);
        GS_TRY(status);
        TAKES_AT_LEAST(start, cases[i].alphas * slow.latency + cases[i].arrays * BYTES / slow.bandwidth,
                       cases[i].scheme->name);
        for (size_t k = 0; k < COUNT; k++)
            RANK_CHECK(data[k] == (float)(6 + 4 * (k % 7)), "%s: element %zu", cases[i].scheme->name, k);
    }
    return GS_OK;
}

TEST(sums_take_their_rounds_and_bytes) {
    over_links(&slow, &(gs_test_layout){"4 threads", 0, {4}}, schemes, NULL);
    over_links(&slow, &layouts[2], schemes, NULL);
}

/* A message that would take longer than the timeout ends both sides at once, with a message. */
static gs_status never_arrives(gs_comm *c, void *context) {
    unsigned char *data = gs_test_scratch(BYTES);
    (void)context;
    if (c->rank == 1) GS_TRY(gs_comm_send(c, data, BYTES, 0));
    return c->rank == 0 ? gs_comm_recv(c, data, BYTES, 1) : gs_comm_barrier(c);
}

TEST(longer_than_the_timeout_is_an_error) {
    static const gs_link never = {1e-3, 100};
    gs_test_outcome outcome[GS_TEST_RANKS] = {0};
    gs_test_link = &never;
    double start = gs_seconds();
    gs_test_run_ranks(&layouts[0], 30, never_arrives, NULL, outcome);
    gs_test_link = NULL;
    assert_int_equal(outcome[0].status, GS_E_USAGE);
    assert_int_equal(outcome[1].status, GS_E_PEER);
    assert_true(gs_seconds() - start < 400); /* the message would take this long, but no rank waited for it */
    for (int r = 0; r < 2; r++) {
        static const char want[] = "rank 0: a message of 40000 bytes from rank 1 takes another ";
        const char *at = strstr(outcome[r].message, want);
        if (!at) fail_msg("rank %d: %s", r, outcome[r].message);
        assert_true(fabs(atof(at + sizeof want - 1) - 400) <
                    100); /* on a busy machine, part of the time may have passed */
    }
}

/* ---- training ---- */

/* Covers every strategy, and a rank that waits for a thread of its own. */
TEST(training_gives_the_same_bits) {
    static const char *const cases[] = {"cpu,cpu,cpu --sync ps",
                                        "cpu,cpu,cpu --sync ring --bucket 1",
                                        "cpu,cpu,cpu",
                                        "cpu,cpu --exact",
                                        "cpu,cpu,cpu --sync local --every 3",
                                        "cpu,cpu,cpu --sync async --staleness 0",
                                        "cpu,cpu,cpu --sync tree",
                                        "cpu,cpu,cpu --sync sharded_ps"};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gs_settings s = gs_test_settings("%s", cases[i]);
        gs_result without = gs_test_train(&s), with;
        s.link = (gs_link){1e-4, 1e9};
        with = gs_test_train(&s);
        assert_same_bits(&without, &with, cases[i]);
    }
    const char *threads =
        gs_test_sha256("train --model softmax --steps 10 --devices cpu,cpu,cpu --threads 1 --sync ring");
    const char *processes = gs_test_sha256("launch -n 3 --transport gloo -- train --model softmax --steps 10 "
                                           "--threads 1 --sync ring --link 100us,1GB/s");
    assert_string_equal(processes, threads);
}

/* 20 steps take at least 2 latencies each; in them, 2 workers process 6000 + 333 samples. The run reports the links. */
TEST(a_run_over_links_takes_as_long) {
    gs_settings s = gs_test_settings("cpu,cpu --sync ps");
    s.link = (gs_link){4e-3, 1e9};
    gs_result r = gs_test_train(&s);
    assert_true(r.samples_per_s <= (6000 + 333) / (GS_TEST_STEPS * 2 * 4e-3));
    assert_prints(0, "link     1ms,125MB/s: a message takes that latency, and its bytes at that rate",
                  "train --model softmax --steps 2 --devices cpu,cpu --link 1ms,1Gbit/s");
    assert_prints(0, "\"link\":\"1ms,125MB/s\"",
                  "train --model softmax --steps 2 --devices cpu,cpu --link 1ms,1Gbit/s --json");
    assert_prints(0, "\"link\":null", "train --model softmax --steps 2 --json");
}

/* Each time is at least one latency, and the table names the links. */
TEST(tables_are_measured_over_links) {
    static const char *const commands[] = {"schemes -n 2 --link 2ms,100GB/s",
                                           "collectives -n 2 --size 4096 --link 2ms,100GB/s"};
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        int lines = 0;
        char *output = gs_test_output(0, "%s --json 2>/dev/null", commands[i]);
        for (char *line = strtok(output, "\n"); line; line = strtok(NULL, "\n"), lines++) {
            cJSON *o = gs_test_parse(line);
            const cJSON *operation = cJSON_GetObjectItem(o, "operation");
            bool waits = !operation || strcmp(operation->valuestring, "send") != 0;
            assert_string_equal(gs_test_field(o, "link")->valuestring, "2ms,100GB/s");
            if (waits && gs_test_field(o, "seconds")->valuedouble < 2e-3) fail_msg("too early: %s", line);
        }
        assert_true(lines >= 33);
    }
}
