/* How a launch has ended: what is said of it, and its exit status. */
#include "cli/launch/launch_state.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "cli/cli.h"
#include "core/text.h"

enum { SAID = 2500 /* bytes of what is said of a failure */ };

void gs_launch_status_text(const gs_launch_state *s, int seat, char *text, size_t size) {
    const int status = s->child[seat].status, rank = s->rank[seat];
    if (WIFSIGNALED(status) && s->told && seat != s->failed)
        snprintf(text, size, "rank %d failed", rank); /* by its own account; the signal was the launcher's */
    else if (WIFSIGNALED(status))
        snprintf(text, size, "rank %d was killed by signal %d (%s)", rank, WTERMSIG(status),
                 strsignal(WTERMSIG(status)));
    else
        snprintf(text, size, "rank %d failed with exit status %d", rank, WEXITSTATUS(status));
}

/* "rank 2 hangs: process 4711 is stopped" */
static void append_hanging(const gs_launch_state *s, int seat, char *text, size_t size) {
    gs_append(text, size, "rank %d hangs: %s", s->rank[seat], s->child[seat].hangs);
}

/* -1: the rank is another launcher's. */
static int child_of(const gs_launch_state *s, int rank) {
    for (int i = 0; i < s->launch->size; i++)
        if (s->rank[i] == rank) return i;
    return -1;
}

/* "rank 2 hangs: process 4711 is stopped; rank 0: ..." */
static void append_why(const gs_launch_state *s, const gs_launch_why *why, char *text, size_t size) {
    for (int r = 0; r < s->launch->size; r++) {
        if (!s->child[r].hangs[0]) continue;
        append_hanging(s, r, text, size);
        gs_append(text, size, "; ");
    }
    gs_append(text, size, "%s", why->message);
}

/* Why it failed. A rank that was killed, or failed for a reason of its own, is to blame. If all ranks merely lost
 * another one, the message of the first says which. */
static void describe_failure(const gs_launch_state *s, char *text, size_t size) {
    gs_launch_why why;
    *text = '\0';
    if (s->hung >= 0) {
        append_hanging(s, s->hung, text, size);
        if (s->failed_others > 0)
            gs_append(text, size, "; ended the other %d that still ran", s->failed_others);
        return;
    }
    bool told = WIFEXITED(s->child[s->failed].status) && gs_launch_why_first(s->why, &why);
    const int reporter = told ? child_of(s, why.rank) : -1;
    if (told && why.code == GS_E_PEER)
        append_why(s, &why, text, size);
    else
        gs_launch_status_text(s, reporter >= 0 ? reporter : s->failed, text, size);
    if (s->failed_others > 0)
        gs_append(text, size, s->told ? "; ended the other %d" : "; the other %d ended too",
                  s->failed_others);
}

static gs_launch_failure failure_of(const gs_launch_state *s) {
    gs_launch_why why;
    const bool told = gs_launch_why_first(s->why, &why);
    const bool killed = s->hung >= 0 || WIFSIGNALED(s->child[s->failed].status);
    return (gs_launch_failure){.lost = killed || (told && why.code == GS_E_PEER),
                               .code = told ? why.code : GS_OK,
                               .stepped = gs_launch_why_stepped(s->why)};
}

/* The last line of the attempt, and whether there is another. */
static bool say_what_follows(const gs_launch_state *s, gs_restarts *restarts) {
    const gs_launch_failure failure = failure_of(s);
    char text[SAID], what[1400];
    const bool again = gs_restarts_next(restarts, &failure, what, sizeof what);
    describe_failure(s, text, sizeof text);
    gs_launch_say("%s%s", text, what);
    return again;
}

/* The signal at which a rank ended in order, or 0: the shell's convention for it is 128 + N (SIGPIPE: see output.c). */
static int stopped_itself(const gs_launch_state *s) {
    for (int r = 0; r < s->launch->size && !s->told; r++) {
        int status = s->child[r].status;
        if (WIFEXITED(status) && WEXITSTATUS(status) > 128) return WEXITSTATUS(status) - 128;
    }
    return 0;
}

/* "stopped by signal 15 (Terminated); rank 2 hangs: process 4711 is stopped", where such ones have been killed. */
static int say_stopped(const gs_launch_state *s, int number) {
    char text[SAID] = "";
    for (int r = 0; r < s->launch->size; r++) {
        if (!s->child[r].hangs[0]) continue;
        gs_append(text, sizeof text, "; ");
        append_hanging(s, r, text, sizeof text);
    }
    gs_launch_say("stopped by signal %d (%s)%s", number, strsignal(number), text);
    return 128 + number;
}

int gs_launch_outcome(gs_launch_state *s, gs_restarts *restarts, bool *again) {
    int usage = 0, ended = 0; /* ended by us before they could say the same */
    for (int r = 0; r < s->launch->size; r++) {
        int status = s->child[r].status;
        usage += WIFEXITED(status) && WEXITSTATUS(status) == GS_EXIT_USAGE;
        ended += s->told && WIFSIGNALED(status);
    }
    if (s->failed < 0) return GS_EXIT_OK;
    int signal_number = s->stopped_by ? s->stopped_by : stopped_itself(s);
    if (signal_number) return say_stopped(s, signal_number);
    if (usage < s->launch->size) {
        const bool misused = s->misused || (usage > 0 && usage + ended == s->launch->size);
        *again = say_what_follows(s, restarts);
        return misused ? GS_EXIT_USAGE : GS_EXIT_FAILED;
    }
    if (usage > 1) gs_launch_say("all %d processes failed with this error", usage);
    return GS_EXIT_USAGE;
}
