/* The arguments of `gradsum launch`, one per line; and what /proc says about the state of a rank's process. */
#include <stdlib.h>
#include "cli/cli.h"
#include "cli/launch/launch.h"
#include "fuzz.h"
#include "core/process.c"

const gs_command gs_commands[] = {{.name = "train", .traits = GS_RUNS_AS_RANKS}, {.name = "sweep"}, {0}};

/* Replaces the launcher's function: nothing is started, here or elsewhere. */
int gs_launch_hosts(const gs_launch *l) {
    if (!l->hosts || !l->command || !*l->command) fuzz_wrong("--hosts without a list, or without a command");
    return 0;
}

int gs_launch_run(const gs_launch *l) {
    if (l->size < 1 || l->size > GS_LAUNCH_MOST || !l->command || !*l->command || !(l->timeout >= 0))
        fuzz_wrong("%d processes, time-out %g, and %s", l->size, l->timeout,
                   l->command ? "no word" : "no command");
    return 0;
}

static void words(char *text) {
    static FILE *nowhere;
    FILE *errors = stderr;
    char *argv[FUZZ_WORDS + 2] = {"launch"};
    if (!nowhere) nowhere = fopen("/dev/null", "w");
    if (nowhere) stderr = nowhere;
    gs_cmd_launch(1 + fuzz_words(text, argv + 1), argv);
    stderr = errors;
}

/* A process may choose any name, which precedes its state. */
static void state(const char *name) {
    char stat[512];
    state_in(name);
    snprintf(stat, sizeof stat, "4711 (%.64s) D 1 4711 4711 0 -1 4194304 100", name);
    if (state_in(stat) != 'D') fuzz_wrong("'%s' was read as the state %c", stat, state_in(stat));
}

FUZZ(in) {
    const bool is_words = fuzz_byte(in) % 2 == 0;
    char *text = fuzz_text(in);
    if (is_words)
        words(text);
    else
        state(text);
    free(text);
}
