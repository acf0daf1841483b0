#include "cli/cli.h"
#include "cli/launch.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void help(void) {
    printf("usage: gradsum launch -n N [--timeout S] [--transport T] -- COMMAND [options]\n\n"
           "Start N processes of gradsum on this machine that train together: they meet over\n"
           "Gloo, and on one machine talk through shared memory.\n"
           "Each runs COMMAND as one rank; Ctrl-C reaches all of them, and when one fails\n"
           "the others are ended.\n\n"
           "  -n N           how many processes, 1 to %d\n"
           "  --timeout S    seconds that a process waits for the others (%d)\n"
           "  --transport T  shm: shared memory; gloo: connections; auto: shm where it can\n"
           "                 be had, else gloo (auto)\n"
           "  --help         this text\n\n"
           "The processes find each other by GRADSUM_RANK, GRADSUM_WORLD_SIZE and\n"
           "GRADSUM_RENDEZVOUS (a folder that all of them see) in their environment, and\n"
           "reach each other at GRADSUM_ADDRESS (127.0.0.1). To use several machines,\n"
           "start each process yourself with these set. The folder must be new for each run:\n"
           "it is removed when all have come.\n\n"
           "example:\n  gradsum launch -n 2 -- train --model lenet --epochs 3\n",
           GS_LAUNCH_MOST, GS_TIMEOUT);
}

/* The value of option `name` at argv[*i], as "-n 2", "-n2" (one letter) or "--timeout=2"; NULL if it is not
 * there. */
static const char *value_of(char **argv, int argc, int *i, const char *name) {
    const char *word = argv[*i];
    size_t length = strlen(name);
    if (strncmp(word, name, length) != 0) return NULL;
    const char *rest = word + length;
    if (*rest == '=') return rest + 1;
    if (*rest != '\0') return name[1] == '-' ? NULL : rest;
    return ++*i < argc && strcmp(argv[*i], "--") != 0 ? argv[*i] : "";
}

static gs_status parse_size(const char *text, int *size) {
    char *rest;
    errno = 0;
    long n = strtol(text, &rest, 10);
    if (*text == '\0')
        return gs_fail(GS_E_USAGE, "-n: how many processes? A whole number from 1 to %d", GS_LAUNCH_MOST);
    if (*rest != '\0' || errno != 0 || n < 1 || n > GS_LAUNCH_MOST)
        return gs_fail(GS_E_USAGE, "-n: '%s' is not a whole number from 1 to %d", text, GS_LAUNCH_MOST);
    *size = (int)n;
    return GS_OK;
}

static gs_status check_timeout(const char *text) {
    char *rest;
    double seconds = strtod(text, &rest);
    if (rest == text || *rest != '\0' || !(seconds > 0) || !isfinite(seconds))
        return gs_fail(GS_E_USAGE, "--timeout: '%s' is not a number of seconds above 0", text);
    return GS_OK;
}

static gs_status parse(int argc, char **argv, gs_launch *launch, bool *wants_help) {
    const char *value;
    int i = 1;
    for (; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            *wants_help = true;
            return GS_OK;
        }
        const char *word = argv[i];
        if ((value = value_of(argv, argc, &i, "-n"))) {
            GS_TRY(parse_size(value, &launch->size));
        } else if ((value = value_of(argv, argc, &i, "--timeout"))) {
            GS_TRY(check_timeout(value));
            launch->timeout = value;
        } else if ((value = value_of(argv, argc, &i, "--transport"))) {
            launch->transport = value;
        } else if (word[0] == '-') {
            return gs_fail(GS_E_USAGE,
                           "there is no option %s; the options are -n N, --timeout S and --transport T",
                           word);
        } else {
            return gs_fail(GS_E_USAGE, "'%s' is no option; '--' must stand before the command: -- %s", word,
                           word);
        }
    }
    if (launch->size == 0) return gs_fail(GS_E_USAGE, "-n N is wanted: how many processes?");
    if (i >= argc - 1) return gs_fail(GS_E_USAGE, "no command after '--': what shall the processes run?");
    launch->command = argv + i + 1;
    return GS_OK;
}

int gs_cmd_launch(int argc, char **argv) {
    gs_launch launch = {0};
    bool wants_help = false;
    if (parse(argc, argv, &launch, &wants_help) != GS_OK) {
        fprintf(stderr, "gradsum launch: %s\nfor example: gradsum launch -n 2 -- train --model lenet\n",
                gs_message());
        return GS_EXIT_USAGE;
    }
    if (wants_help) {
        help();
        return GS_EXIT_OK;
    }
    return gs_launch_run(&launch);
}
