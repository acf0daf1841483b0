/* The parts of the store where ranks meet: the frames of a conversation with it, and the entries that it holds. */
#include "tests/test.h"

#include "comm/meet/entries.h"
#include "comm/meet/frames.h"
#include "comm/meet/store.h"

static void frames_that_are_changed_or_repeated_are_noticed(void **state) {
    (void)state;
    unsigned char key[GS_SECRET] = {7}, one[GS_FRAME_MOST], two[GS_FRAME_MOST];
    gs_hello caller, listener;
    gs_frames a, b, again;
    gs_frame_kind kind;
    const char *body, *name, *value;
    size_t bytes;
    assert_ok(gs_hello_make(1, GS_STORE_NUMBER, GS_STORE_LINE, &caller));
    assert_ok(gs_hello_make(GS_STORE_NUMBER, 1, GS_STORE_LINE, &listener));
    gs_frames_begin(&a, key, &caller, &listener, 1);
    gs_frames_begin(&b, key, &caller, &listener, 0);
    const size_t first = gs_frame_write(&a, GS_FRAME_PUT, "rank-1\0value", 13, one);
    const size_t second = gs_frame_write(&a, GS_FRAME_BYE, NULL, 0, two);
    again = b;
    for (size_t have = 0; have < first; have++) { /* cut anywhere: not yet complete */
        b = again;
        assert_int_equal(gs_frame_read(&b, one, have, &kind, &body, &bytes), 0);
    }
    b = again;
    assert_int_equal(gs_frame_read(&b, one, first, &kind, &body, &bytes), first);
    assert_int_equal(kind, GS_FRAME_PUT);
    assert_true(gs_frame_pair(body, bytes, &name, &value));
    assert_string_equal(name, "rank-1");
    assert_string_equal(value, "value");
    gs_frames after = b;
    assert_int_equal(gs_frame_read(&b, one, first, &kind, &body, &bytes), -1); /* repeated */
    b = again;
    assert_int_equal(gs_frame_read(&b, two, second, &kind, &body, &bytes),
                     -1); /* the one before is missing */
    assert_int_equal(gs_frame_read(&after, two, second, &kind, &body, &bytes), second);
    for (size_t i = 0; i < first; i++) { /* a bit of any byte */
        b = again;
        one[i] ^= 1;
        assert_true(gs_frame_read(&b, one, first, &kind, &body, &bytes) <= 0);
        one[i] ^= 1;
    }
    gs_frames_begin(&b, key, &listener, &caller, 0); /* of another connection */
    assert_int_equal(gs_frame_read(&b, one, first, &kind, &body, &bytes), -1);
    assert_false(gs_frame_pair("key", 4, &name, &value));
    assert_false(gs_frame_pair("\0value", 7, &name, &value));
    assert_false(gs_frame_pair("", 0, &name, &value));
}

/* A store that a thousand attempts meet at has room for each. */
static void old_attempts_are_forgotten(void **state) {
    (void)state;
    gs_entries s = {0};
    assert_true(gs_entries_add(&s, "launch/next-1", "") && gs_entries_add(&s, "rank-0", "first"));
    assert_true(gs_entries_add(&s, "2/rank-0", "second"));
    assert_string_equal(gs_entries_find(&s, "rank-0"), "first"); /* it may still end */
    assert_true(gs_entries_add(&s, "3/rank-0", "third"));
    assert_null(gs_entries_find(&s, "rank-0"));
    assert_string_equal(gs_entries_find(&s, "2/rank-0"), "second");
    assert_true(gs_entries_add(&s, "3/rank-1", "") && gs_entries_add(&s, "5/rank-0", "fifth"));
    assert_null(gs_entries_find(&s, "3/rank-0"));
    assert_string_equal(gs_entries_find(&s, "launch/next-1"), "");
    assert_int_equal(s.count, 2);
    /* One who has heard of the first three goes on with the next that is there. */
    assert_string_equal(gs_entries_from(&s, 0)->pair, "launch/next-1");
    assert_string_equal(gs_entries_from(&s, 3)->pair, "5/rank-0");
    assert_null(gs_entries_from(&s, 6));
    gs_entries_free(&s);
}

GS_TESTS(store_parts, cmocka_unit_test(frames_that_are_changed_or_repeated_are_noticed),
         cmocka_unit_test(old_attempts_are_forgotten))
