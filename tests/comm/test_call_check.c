/* The check of collectives' results (comm/call_check.h): computes the right ones and detects wrong ones. */
#include "tests/support/test.h"

#include "comm/call_check.h"

/* Small cases computed by hand. */
TEST(reductions_by_hand) {
    const int32_t a[] = {INT32_MAX, -3, INT32_MIN}, b[] = {1, 4, -1};
    static const int32_t wanted[GS_REDUCTIONS][3] = {
        {INT32_MIN, 1, INT32_MAX}, {1, -3, INT32_MIN}, {INT32_MAX, 4, -1}};
    for (int how = 0; how < GS_REDUCTIONS; how++) {
        int32_t to[3];
        gs_combine_of(GS_I32, (gs_reduction)how)(to, a, b, 3);
        assert_memory_equal(to, wanted[how], sizeof to);
    }
    uint8_t u[] = {200, 16, 7};
    const uint8_t v[] = {100, 16, 9};
    gs_combine_of(GS_U8, GS_SUM)(u, u, v, 3);
    assert_true(u[0] == 44 && u[1] == 32 && u[2] == 16);
    float f[] = {1.5f, -2}, g[] = {2, 0.25f};
    gs_combine_of(GS_F32, GS_MAX)(g, f, g, 2);
    assert_true(g[0] == 2 && g[1] == 0.25f);
}

/* The check fails whichever byte is wrong. */
TEST(a_wrong_byte_is_found) {
    enum { SIZE = 3, COUNT = 5 };
    unsigned char in[SIZE * COUNT * 8], out[SIZE * COUNT * 8];
    for (int o = GS_BROADCAST; o <= GS_ALL_TO_ALL; o++) {
        for (int rank = 0; rank < 2; rank++) {
            gs_call call = {(gs_operation)o, COUNT, GS_F64, GS_SUM, 1};
            gs_call_fill(&call, rank, SIZE, in, out);
            bool leaves_alone = o == GS_REDUCE && rank != 1, brings = o == GS_BROADCAST && rank == 1;
            gs_call_bytes bytes = gs_call_bytes_of(&call, rank, SIZE);
            if (leaves_alone || brings || bytes.out == 0) {
                assert_ok(gs_call_verify(&call, rank, SIZE, in, out));
                if (bytes.in + bytes.out > 0) (bytes.in ? in : out)[3] ^= 1;
            }
            assert_fails(GS_E_FORMAT, gs_operation_name((gs_operation)o),
                         gs_call_verify(&call, rank, SIZE, in, out));
        }
    }
}

TEST(calls_are_described) {
    const gs_call reduce = {GS_REDUCE, 7, GS_I64, GS_MAX, 2}, broadcast = {GS_BROADCAST, 7, GS_U8, 0, 2},
                  sum = {GS_ALL_REDUCE, 8, GS_F32, GS_SUM, 0}, barrier = {.operation = GS_BARRIER};
    assert_string_equal(gs_call_text(&reduce, true), "reduce of 7 i64 (max) to rank 2");
    assert_string_equal(gs_call_text(&broadcast, true), "broadcast of 7 u8 from rank 2");
    assert_string_equal(gs_call_text(&sum, false), "all_reduce of 8 f32");
    assert_string_equal(gs_call_text(&barrier, true), "barrier");
}
