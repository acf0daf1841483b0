/* A model without weights learns nothing, but every way to train it ends, and says what the plain step says. */
#include "tests/program.h"

/* The SHA-256 of no bytes. */
#define NOTHING "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

TEST(every_way_ends) {
    static const char *const ways[] = {"--sync ring",
                                       "--sync local --every 2",
                                       "--sync async --staleness 1",
                                       "--exact",
                                       "--bucket 8",
                                       "--precision f16",
                                       "--zero 1",
                                       "--zero 2",
                                       "--zero 3 --accumulate 2",
                                       "--zero 3 --exact"};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        gs_test_program_prints(
            0, NOTHING, "train --model \"max_pool 7, flatten\" --devices cpu,cpu --steps 2 --epochs 1 %s",
            ways[i]);
}
