/* A rank that ends before it comes to the meeting place. Where it finds out by itself why it must fail, it leaves word
 * there (gs_comm_stay_away). One that is killed, or cannot even begin, says nothing, and the ranks of other nodes would
 * wait for it as long as the time-out is. Its launcher knows, and leaves word in its place:
 *
 *     rank 0: rank 3 failed before it joined: it was killed by signal 9 (Killed), on node rank 1 (host berta)
 */
#include "cli/launch/launch_state.h"

#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <sys/wait.h>

#include "comm/comm.h"
#include "comm/meet/store.h"
#include "core/text.h"

static void describe(const gs_launch_state *s, int seat, char *why, size_t size) {
    const int status = s->child[seat].status;
    struct utsname here;
    if (s->stopped_by)
        snprintf(why, size, "it was stopped by signal %d (%s)", s->stopped_by, strsignal(s->stopped_by));
    else if (WIFSIGNALED(status))
        snprintf(why, size, "it was killed by signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
    else
        snprintf(why, size, "it ended with exit status %d", WEXITSTATUS(status));
    gs_append(why, size, ", on node rank %d (host %s)", s->launch->node,
              uname(&here) == 0 ? here.nodename : "unknown");
}

static gs_rendezvous place_of(const gs_launch_state *s, int seat) {
    const gs_launch *l = s->launch;
    gs_rendezvous r = {.rank = s->rank[seat],
                       .size = l->world,
                       .timeout = s->timeout,
                       .ports = 1,
                       .nodes = l->nodes,
                       .local = -1};
    if (gs_meet_is_folder(s->place.meet))
        r.directory = s->place.meet;
    else
        snprintf(r.meet, sizeof r.meet, "%.*s", (int)sizeof r.meet - 1, s->place.meet);
    return r;
}

void gs_launch_tell_absent(const gs_launch_state *s, int seat) {
    char why[300];
    if (s->launch->nodes == 1 || s->rank[seat] < 0 || gs_launch_why_has_met(s->why)) return;
    if (!s->stopped_by && gs_launch_why_told(s->why, s->rank[seat])) return;
    const gs_rendezvous r = place_of(s, seat);
    describe(s, seat, why, sizeof why);
    gs_comm_stay_away(&r, GS_E_PEER, why);
}
