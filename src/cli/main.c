#include "cli/cli.h"
#include "cli/launch/launch.h"
#include "comm/inject/inject.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

const gs_command gs_commands[] = {
    {"devices", gs_cmd_devices, GS_COMPUTES, "list the devices of this machine"},
    {"doctor", gs_cmd_doctor, GS_COMPUTES, "check this machine, and the connections of several"},
    {"model", gs_cmd_model, 0, "show the layers, shapes, parameters and FLOPs of a model"},
    {"memory", gs_cmd_memory, GS_COMPUTES, "the memory that a training run would take, by kind"},
    {"layout", gs_cmd_layout, GS_COMPUTES, "the ways to share a run among workers: time, memory and bytes"},
    {"simulate", gs_cmd_simulate, GS_COMPUTES, "the time of a step on a simulated cluster"},
    {"train", gs_cmd_train, GS_COMPUTES | GS_RUNS_AS_RANKS, "train a model on one worker or several"},
    {"launch", gs_cmd_launch, GS_COMPUTES, "start several processes that train together"},
    {"eval", gs_cmd_eval, GS_COMPUTES | GS_RUNS_AS_RANKS, "accuracy of saved weights on the test set"},
    {"predict", gs_cmd_predict, GS_COMPUTES, "logits of the test set as a NumPy array"},
    {"generate", gs_cmd_generate, GS_COMPUTES, "write text with a language model, token by token"},
    {"compare", gs_cmd_compare, GS_COMPUTES, "the same training on several sets of devices, as a table"},
    {"sweep", gs_cmd_sweep, GS_COMPUTES, "steps and seconds to a target for several global batches"},
    {"profile", gs_cmd_profile, GS_COMPUTES, "where the time goes: loader, step, and each layer of it"},
    {"report", gs_cmd_report, 0, "a page of training logs: curves, speed-up, a timeline"},
    {"explain", gs_cmd_explain, GS_COMPUTES, "where two runs first differ (train --digest), and why"},
    {"step", gs_cmd_step, GS_COMPUTES, "watch one synchronisation of the workers, message by message"},
    {"collectives", gs_cmd_collectives, GS_COMPUTES, "run and check every collective, as a table"},
    {"schemes", gs_cmd_schemes, GS_COMPUTES, "time every way to sum gradients, by size"},
    {"lesson", gs_cmd_lesson, 0, "predict what a lesson's experiments give, then run them"},
    {"grade", gs_cmd_grade, GS_COMPUTES, "grade a folder of hand-ins to the labs"},
    {0},
};
enum { COMMANDS = sizeof gs_commands / sizeof *gs_commands - 1 };

static void help(FILE *to) {
    static const char *const headings[][2] = {{"devices", "plan"},
                                              {"train", "train, and use what was trained"},
                                              {"compare", "compare and explain runs"},
                                              {"step", "watch the workers"},
                                              {"lesson", "learn and teach"}}; /* each from this command on */
    fprintf(to,
            "gradsum %s: learn data-parallel training by running it\n\n"
            "usage: gradsum COMMAND [options]      gradsum COMMAND --help\n\n",
            GRADSUM_VERSION);
    for (const gs_command *c = gs_commands; c->name; c++) {
        for (size_t i = 0; i < sizeof headings / sizeof *headings; i++)
            if (strcmp(c->name, headings[i][0]) == 0) fprintf(to, "%s:\n", headings[i][1]);
        fprintf(to, "  %-12s %s\n", c->name, c->what);
    }
    fprintf(to, "  %-12s %s\n", "help", "this list; help COMMAND: the same as COMMAND --help");
    fprintf(to, "\nexample:\n  gradsum launch -n 2 -- train --model lenet --epochs 3\n");
}

static bool is_help(const char *word) {
    return strcmp(word, "help") == 0 || strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
}

/* True if this is the run's only process; false for `launch`, which passes its environment on to several processes. */
static bool is_alone(const char *command) {
    gs_rendezvous r;
    return strcmp(command, "launch") != 0 && (gs_rendezvous_from_environment(&r) != GS_OK || r.size == 1);
}

static int unknown_command(const char *name) {
    const char *names[COMMANDS + 2] = {NULL};
    for (int i = 0; i < COMMANDS; i++) names[i] = gs_commands[i].name;
    names[COMMANDS] = "help";
    const char *nearest = gs_nearest(name, strlen(name), names);
    if (nearest)
        gs_tell("", "unknown command '%s'; did you mean '%s'? gradsum help lists them all", name, nearest);
    else if (*name)
        gs_tell("", "unknown command '%s'\n", name);
    if (!nearest) help(stderr);
    return GS_EXIT_USAGE;
}

static int unexpected(const char *name, const char *word, const char *wanted) {
    gs_tell(name, "unexpected '%s'; %s", word, wanted);
    return GS_EXIT_USAGE;
}

static int run_command(int argc, char **argv) {
    const char *name = argv[1];
    gs_faults_tell = gs_tell_sentence;
    for (int i = 0; i < COMMANDS; i++) {
        if (strcmp(name, gs_commands[i].name) != 0) continue;
        if (gs_commands[i].traits & GS_COMPUTES) {
            gs_cpu_choose_kernels(argv);
            gs_launch_cache_under_mpirun();
            gs_cl_choose_settings(is_alone(name));
            if (gs_commands[i].run != gs_cmd_launch) gs_cl_choose_cache(); /* each rank chooses its own */
        }
        return gs_commands[i].run(argc - 1, argv + 1);
    }
    return unknown_command(name);
}

/* "help", or "help train", which equals "train --help". */
static int run_help(int argc, char **argv) {
    const char *name = argv[1], *about = argc > 2 ? argv[2] : "help";
    if (argc > 3) return unexpected(name, argv[3], "it takes at most one command, as in gradsum help train");
    if (is_help(about)) {
        help(stdout);
        return GS_EXIT_OK;
    }
    char *command_help[] = {argv[0], argv[2], "--help", NULL};
    return run_command(3, command_help);
}

static int run(int argc, char **argv) {
    if (argc < 2) return unknown_command("");
    if (is_help(argv[1])) return run_help(argc, argv);
    if (strcmp(argv[1], "--version") != 0) return run_command(argc, argv);
    if (argc > 2 && argv[2][0] != '-') return unexpected(argv[1], argv[2], "it stands alone");
    printf("gradsum %s\n", GRADSUM_VERSION);
    return GS_EXIT_OK;
}

/* Any command fails if its results could not be written to standard output, for instance on a full disk. */
static int close_output(const char *command, int exit_status) {
    const bool failed = ferror(stdout) != 0; /* its errno is lost, but writing another byte fails again */
    errno = 0;
    clearerr(stdout);
    if (failed) putchar('\n');
    if (fclose(stdout) == 0 && !failed) return exit_status;
    const int error = errno;
    if (gs_stop_requested == SIGPIPE) return exit_status; /* already reported */
    fprintf(stderr, "gradsum %s: standard output could not be written completely: %s\n", command,
            error ? strerror(error) : "an earlier write failed");
    return exit_status == GS_EXIT_OK ? GS_EXIT_FAILED : exit_status;
}

/* At a file size limit (ulimit -f), a write must fail with a message instead of ending the program. SIG_IGN would do
 * that too, but child programs would inherit it. */
static void nothing(int signal_number) {
    (void)signal_number;
}

/* If a standard stream is closed (>&-), the next file to be opened would get its number, and output would go into that
 * file. Open a substitute whose use fails as well: 0 cannot be read, and 1 and 2 cannot be written. */
static void hold_standard_streams(void) {
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0) (void)!open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

int main(int argc, char **argv) {
    hold_standard_streams();
    signal(SIGXFSZ, nothing);
    int exit_status = run(argc, argv);
    exit_status = close_output(argc > 1 ? argv[1] : "", exit_status);
    return exit_status != GS_EXIT_OK && gs_stop_requested ? 128 + gs_stop_requested : exit_status;
}
