/* What the environment says about this process and its peers; each line is the value of one variable. */
#include <stdlib.h>
#include <string.h>
#include "cli/wrapped.h"
#include "cli/launch/launch.h"
#include "comm/inject/inject.h"
#include "fuzz.h"

FUZZ(in) {
    static const char *const names[] = {"GRADSUM_RANK",
                                        "GRADSUM_WORLD_SIZE",
                                        "GRADSUM_RENDEZVOUS",
                                        "GRADSUM_TIMEOUT",
                                        "GRADSUM_ADDRESS",
                                        "GRADSUM_TRANSPORT",
                                        "OMPI_COMM_WORLD_RANK",
                                        "OMPI_COMM_WORLD_SIZE",
                                        "GRADSUM_CHECK",
                                        "COLUMNS",
                                        "LANG",
                                        "RANK",
                                        "WORLD_SIZE",
                                        "MASTER_ADDR",
                                        "MASTER_PORT",
                                        "SLURM_PROCID",
                                        "SLURM_NTASKS",
                                        "SLURM_STEP_NODELIST",
                                        "GRADSUM_FAULT",
                                        "PMI_RANK",
                                        "PMI_SIZE",
                                        "PMIX_RANK"};
    enum { NAMES = sizeof names / sizeof *names };
    char *text = fuzz_text(in), *value[FUZZ_WORDS + 1];
    int count = fuzz_words(text, value);
    for (int i = 0; i < NAMES; i++) {
        if (i < count && strcmp(value[i], "-") != 0)
            setenv(names[i], value[i], 1);
        else
            unsetenv(names[i]);
    }
    gs_rendezvous r;
    if (gs_rendezvous_from_environment(&r) == GS_OK && (r.rank < 0 || r.rank >= r.size || !(r.timeout > 0)))
        fuzz_wrong("rank %d of %d, time-out %g", r.rank, r.size, r.timeout);
    gs_comm_check_if_wanted(0, NULL);
    gs_comm_inject_if_wanted(0, NULL);
    if (!(gs_launch_timeout(&(gs_launch){0}) > 0)) fuzz_wrong("a launch without a timeout");
    const int width = gs_screen_width(stdout);
    if (width < GS_SCREEN_LEAST || width > 1000) fuzz_wrong("%d columns", width);
    free(text);
}
