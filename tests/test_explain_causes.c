/* What `gradsum explain` says where no cause of its table is it, and where a mistake was made by a rank alone. */
#include "tests/files.h"
#include "tests/program.h"

#include <sys/stat.h>

#include "explain/explain.h"

static void write_rank(const char *folder, int rank, const char *text) {
    mkdir(folder, 0700);
    const char *path = gs_test_format("%s/rank-%d.digest", folder, rank);
    write_text(path, text);
}

/* Two ranks of a record by hand, of which each has what `row` says, and an update with this factor. */
static const char *named_by_hand(const char *name, const char *const row[2], double scale) {
    static char folder[300];
    snprintf(folder, sizeof folder, "%s/%s", gs_test_folder(), name);
    for (int r = 0; r < 2; r++) {
        char text[600];
        snprintf(text, sizeof text,
                 "gradsum digest 3 rank %d of 2\noption augment flip\nlayer 0 linear 0\nparam 0 0 4 0 0 "
                 "0.w\nset 8\n"
                 "start\n%sscore 1 1 1 8 1 %g 1 1 0 0 8\nend 1\n",
                 r, row[r], r == 1 ? scale : 1.0);
        write_rank(folder, r, text);
    }
    return folder;
}

/* Whatever differs, there is a sentence, and it says nothing that is not so. */
TEST(every_difference_gets_a_sentence) {
    static const struct {
        const char *right[2], *wrong[2];
        double scale;
        const char *cause, *sentence;
    } cases[] = {
        {{"samples 1 0 0 4 1 4 1 1 1 1 0\n", "samples 1 0 1 4 1 4 1 1 1 1 0\n"},
         {"samples 1 0 0 4 9 9 9 1 2 7 0\n", "samples 1 0 1 4 9 9 9 1 2 7 0\n"},
         1,
         "other samples or answers",
         "are those of no step of the right run: another order is drawn, or other random changes"},
        {{"answers 1 0 0 4 1 4 1 1 1 1 0\n", ""},
         {"answers 1 0 0 4 9 9 9 1 2 7 0\n", ""},
         1,
         "other samples or answers",
         "the samples are right, but the answers on"},
        {{"", ""}, {"", ""}, 0, "update missing", "no update was made on rank 1"},
        /* the stage on rank 1 has no such tensor, and so no sum that is right */
        {{"sum 1 0 0 4 1 4 1 1 1 1 0\n", ""},
         {"sum 1 0 0 4 1 4 1 2 0 1 0\n", ""},
         1,
         "another sum",
         "the sum on rank 0 is not"},
        {{"sum 1 0 0 4 1 4 1 1 1 1 0\n", "sum 1 0 0 4 1 4 1 1 1 1 0\n"},
         {"sum 1 0 0 4 1 4 1 2 0 1 0\n", "sum 1 0 0 4 1 4 1 1 1 1 0\n"},
         1,
         "sum changed on a rank",
         "the sum on rank 0 is not that of the other ranks, which is right"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gs_digests a, b;
        gs_difference d;
        assert_ok(gs_digests_read(named_by_hand("wrong-one", cases[i].wrong, cases[i].scale), &a));
        assert_ok(gs_digests_read(named_by_hand("right-one", cases[i].right, 1), &b));
        gs_explain(&a, &b, &d);
        assert_true(d.found);
        if (strcmp(d.cause, cases[i].cause) != 0 || !strstr(d.sentence, cases[i].sentence))
            fail_msg("case %zu: %s: %s; wanted %s: %s", i, d.cause, d.sentence, cases[i].cause,
                     cases[i].sentence);
        gs_digests_free(&a);
        gs_digests_free(&b);
    }
}
