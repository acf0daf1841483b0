/* How a launch has ended: what is said of it, and its exit status. */
#include "cli/launch/launch_state.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "cli/cli.h"
#include "cli/launch/elastic_nodes.h"
#include "cli/launch/nodes.h"
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

static int stopped_asked(void *context) {
    return gs_launch_asked_to_stop(context);
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

/* With the launches of the other nodes: each says what has happened on its own, and what follows on all. */
static int outcome_of_nodes(gs_launch_state *s, gs_restarts *restarts, bool all_usage, bool *again) {
    gs_launch_report mine = {.end = s->failed < 0 ? GS_ENDED_WELL : GS_ENDED_FAILED};
    gs_launch_end all;
    char text[SAID] = "the ranks here are done, but another node's have failed", what[1400];
    const int signal_number = s->failed < 0 ? 0 : s->stopped_by ? s->stopped_by : stopped_itself(s);
    if (s->failed >= 0) mine.failure = failure_of(s);
    if (all_usage) mine.failure = (gs_launch_failure){.code = GS_E_USAGE};
    if (signal_number) mine = (gs_launch_report){.end = GS_ENDED_STOPPED, .signal = signal_number};
    *again = gs_launch_nodes_agree(s->nodes, restarts, &mine, s->timeout, stopped_asked, s, &all, what,
                                   sizeof what);
    if (signal_number || (s->stopped_by && !*again)) {
        return say_stopped(s, signal_number ? signal_number : s->stopped_by);
    }
    if (all == GS_ENDED_WELL) return GS_EXIT_OK;
    if (s->failed >= 0) describe_failure(s, text, sizeof text);
    gs_launch_say("%s%s", text, what);
    return all_usage ? GS_EXIT_USAGE : GS_EXIT_FAILED;
}

/* All launches of an elastic run say the same. */
static int say_end_of_all(const gs_launch_state *s, int usage) {
    int exit_status; /* s->verdict */
    const char *why = gs_elastic_nodes_end(s->elastic_nodes, &exit_status);
    if (why) gs_launch_say("%s", why);
    return usage == s->launch->size ? GS_EXIT_USAGE : s->verdict;
}

int gs_launch_outcome(gs_launch_state *s, gs_restarts *restarts, bool *again) {
    int usage = 0, ended = 0; /* ended by us before they could say the same */
    for (int r = 0; r < s->launch->size; r++) {
        int status = s->child[r].status;
        usage += WIFEXITED(status) && WEXITSTATUS(status) == GS_EXIT_USAGE;
        ended += s->told && WIFSIGNALED(status);
    }
    if (s->nodes) return outcome_of_nodes(s, restarts, usage == s->launch->size, again);
    if (s->verdict == GS_EXIT_OK) return GS_EXIT_OK;
    if (s->elastic_nodes && s->stopped_by) return say_stopped(s, s->stopped_by);
    if (s->elastic_nodes && s->verdict > 0) return say_end_of_all(s, usage);
    if (s->failed < 0) return GS_EXIT_OK;
    int signal_number = s->stopped_by ? s->stopped_by : stopped_itself(s);
    if (signal_number) return say_stopped(s, signal_number);
    if (usage < s->launch->size) {
        const bool misused = s->verdict == GS_EXIT_USAGE || (usage > 0 && usage + ended == s->launch->size);
        *again = say_what_follows(s, restarts);
        return misused ? GS_EXIT_USAGE : GS_EXIT_FAILED;
    }
    if (usage > 1) gs_launch_say("all %d processes failed with this error", usage);
    return GS_EXIT_USAGE;
}
