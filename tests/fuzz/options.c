/* The arguments of `gradsum train`, one per line, and the check that the resulting settings are compatible. */
#include <stdlib.h>
#include "cli/cli.h"
#include "fuzz.h"
#include "train/settings.h"

const gs_command gs_commands[] = {{0}}; /* in main.c, which the harnesses do not link */

FUZZ(in) {
    char *text = fuzz_text(in), *argv[FUZZ_WORDS + 2] = {"train"};
    int words, argc = 1 + fuzz_words(text, argv + 1);
    bool help;
    gs_settings s = gs_settings_default();
    gs_shape shape;
    const gs_option own[] = {{"input", GS_OPTION_SHAPE, &shape, 0, 0, "CxHxW", ""}, {0}};
    if (gs_options_parse(gs_run_options(&s, GS_TRAINING | GS_LEARNING | GS_BY_TRAIN, own), argc, argv, &words,
                         &help) == GS_OK) {
        if (words < 0 || words >= argc) fuzz_wrong("%d words of %d", words, argc - 1);
        gs_check_settings(&s);
    }
    free(text);
}
