#include "cli/cli.h"
#include "data/colour.h"

#include <stdio.h>
#include <string.h>

static gs_status check_words(int words, char **argv) {
    if (words == 0)
        return gs_fail(GS_E_USAGE, "a data set and a folder are required, as in gradsum dataset %s DIR",
                       gs_colour_names[0]);
    if (words == 1) return gs_fail(GS_E_USAGE, "a folder is required, as in gradsum dataset %s DIR", argv[1]);
    if (words > 2) return gs_fail(GS_E_USAGE, "'%s' is too much: wanted a data set and a folder", argv[3]);
    return *argv[2] ? GS_OK : gs_fail(GS_E_USAGE, "the name of the folder is empty");
}

static void print_sets(void) {
    printf("\ndata sets:\n"
           "  colour-fashion        50,000 + 10,000 pictures, made of fashion-mnist\n"
           "  colour-fashion-small  6,000 + 1,000, made of fashion-mnist-small, which comes\n"
           "                        with gradsum\n\n"
           "Hue, place and background of each picture are drawn from the seed, and not from\n"
           "its class. Only the form tells it, so a linear model fails. --data takes these\n"
           "names too: then they are made with seed %d and kept in the cache.\n",
           GS_COLOUR_SEED);
}

int gs_cmd_dataset(int argc, char **argv) {
    uint64_t seed = GS_COLOUR_SEED;
    int words, exit_status;
    const gs_option options[] = {
        {"seed", GS_OPTION_COUNT, &seed, 0, 1e18, "N", "seed of colours, places and backgrounds"},
        {0},
    };
    const gs_help help = {
        "dataset NAME DIR [--seed N]",
        "Make a data set of 3 x 32 x 32 pictures in colour, in CIFAR-10's binary format,\n"
        "of Fashion-MNIST's grey ones. The same seed gives the same bytes on every\nmachine.",
        "gradsum dataset colour-fashion data && gradsum train --model cnn --data data", print_sets};
    if (!gs_options_taken(options, &help, argc, argv, &words, &exit_status)) return exit_status;
    gs_status status = check_words(words, argv);
    if (status == GS_OK) status = gs_colour_write(argv[1], seed, argv[2]);
    if (status != GS_OK) return gs_exit_status("dataset", status);
    const char *dot = gs_colour_is_name(argv[2]) ? "./" : ""; /* else the name would be taken for the set's */
    printf("made     %s of seed %llu, as CIFAR-10's files in %s\nuse      gradsum train --data %s%s\n",
           argv[1], (unsigned long long)seed, argv[2], dot, argv[2]);
    return GS_EXIT_OK;
}
