#include "cli/cli.h"
#include "cli/launch.h"
#include "sync/comm.h"

#include <stdio.h>
#include <string.h>

/* COMPUTES: needs OpenBLAS's kernels and PoCL's settings, for which the program may start itself once more (some 5 ms). */
typedef enum needs { NOTHING, COMPUTES } needs;

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
    needs needs;
    const char *what;
} commands[] = {
    {"devices", gs_cmd_devices, COMPUTES, "list the devices of this machine"},
    {"model", gs_cmd_model, NOTHING, "show the layers, shapes, parameters and FLOPs of a model"},
    {"train", gs_cmd_train, COMPUTES, "train a model on one worker or several"},
    {"eval", gs_cmd_eval, COMPUTES, "accuracy of saved weights on the test set"},
    {"predict", gs_cmd_predict, COMPUTES, "logits of the test set as a NumPy array"},
    {"compare", gs_cmd_compare, COMPUTES, "the same training on several sets of devices, as a table"},
    {"profile", gs_cmd_profile, COMPUTES, "where the time goes: loader, step, and each layer of it"},
    {"sweep", gs_cmd_sweep, COMPUTES, "steps and seconds to a target for several global batches"},
    {"report", gs_cmd_report, NOTHING, "a page of training logs: curves, speed-up, a timeline"},
    {"step", gs_cmd_step, COMPUTES, "watch one synchronisation of the workers, message by message"},
    {"collectives", gs_cmd_collectives, COMPUTES, "run and check every collective, as a table"},
    {"schemes", gs_cmd_schemes, COMPUTES, "time every way to sum gradients, by size"},
    {"tune", gs_cmd_tune, COMPUTES, "find the fastest tiles for an OpenCL device, and keep them"},
    {"grade", gs_cmd_grade, COMPUTES, "grade a folder of hand-ins to the labs, as CSV"},
    {"launch", gs_cmd_launch, COMPUTES, "start several processes that train together over Gloo"},
};
enum { COMMANDS = sizeof commands / sizeof *commands };

static void help(FILE *to) {
    fprintf(to,
            "gradsum %s: learn data-parallel training by running it\n\n"
            "usage: gradsum COMMAND [options]      gradsum COMMAND --help\n\n",
            GRADSUM_VERSION);
    for (int i = 0; i < COMMANDS; i++) fprintf(to, "  %-12s %s\n", commands[i].name, commands[i].what);
    fprintf(to, "\nexample:\n  gradsum launch -n 2 -- train --model lenet --epochs 3\n");
}

/* `launch` leaves its environment to the processes that it starts, which are not alone. */
static bool is_alone(const char *command) {
    gs_rendezvous r;
    return strcmp(command, "launch") != 0 && (gs_rendezvous_from_environment(&r) != GS_OK || r.size == 1);
}

int main(int argc, char **argv) {
    const char *name = argc > 1 ? argv[1] : "";
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0) {
        help(stdout);
        return GS_EXIT_OK;
    }
    if (strcmp(name, "--version") == 0) {
        printf("gradsum %s\n", GRADSUM_VERSION);
        return GS_EXIT_OK;
    }
    for (int i = 0; i < COMMANDS; i++) {
        if (strcmp(name, commands[i].name) != 0) continue;
        if (commands[i].needs == COMPUTES) {
            gs_cpu_choose_kernels(argv);
            gs_launch_cache_under_mpirun();
            gs_cl_choose_settings(is_alone(name));
        }
        return commands[i].run(argc - 1, argv + 1);
    }
    if (*name) fprintf(stderr, "gradsum: there is no command '%s'\n\n", name);
    help(stderr);
    return GS_EXIT_USAGE;
}
