/* Signals ask a run to stop, or to write a checkpoint; so does an output that nobody reads any more. */
#include "cli/cli.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

static void stop(int signal_number) {
    static const char note[] = "\ngradsum: stopping after the test; once more ends it now\n";
    gs_stop_requested = signal_number;
    if (gs_test_has_no_stop && write(STDERR_FILENO, note, sizeof note - 1) < 0)
        gs_stop_requested = signal_number;
    signal(signal_number, SIG_DFL); /* the second one ends the program at once */
}

void gs_stop_on_signals(void) {
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        struct sigaction now;
        if (sigaction(numbers[i], NULL, &now) == 0 && now.sa_handler != SIG_IGN) /* nohup */
            signal(numbers[i], stop);
    }
    signal(SIGPIPE, SIG_IGN); /* gs_flush_output sees it too, and the weights are not lost */
}

static void ask(int signal_number) {
    (void)signal_number;
    gs_checkpoint_requested = (gs_checkpoint_requested + 1) & 0xffff;
}

void gs_checkpoint_on_signal(void) {
    signal(SIGUSR1, ask);
}

void gs_flush_output(void) {
    if (fflush(stdout) != 0 && errno == EPIPE && !gs_stop_requested) gs_stop_requested = SIGPIPE;
}
