/* Why an operation over Gloo failed. This file does what Gloo does not: it finds out which rank is to blame, tells the
 * others, and makes every later operation fail at once.
 *
 * How a failure spreads: a rank that fails (or calls abort) sends its message to all ranks that are still connected,
 * and closes its connections. So each operation that waits for it fails too. The rank that waited finds the message,
 * passes it on in the same way, and returns it. All ranks end with the first message, not with the name of a rank that
 * only stopped because another had.
 *
 * A message cut off in the middle blocks the last words behind it, and they are lost. If the rank is a process of this
 * machine, one can still check whether it lives; if it does, it was not to blame.
 *
 * When a wait was too long, no rank is lost yet, and the connections stand. So the ranks first tell each other for whom
 * they wait (waits.c).
 */
#include "comm/gloo/state.h"
#include "comm/process.h"
#include "comm/rank_list.h"
#include "comm/waits.h"
#include "core/clock.h"
#include "core/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { WHAT = 96 };

/* ---- processes of this machine ---- */

/* Read from the process's descriptor. */
long gs_gloo_process(const gs_gloo_state *s, int rank) {
    char path[64], line[128];
    long pid = 0;
    if (s->process[rank] < 0) return 0;
    snprintf(path, sizeof path, "/proc/self/fdinfo/%d", s->process[rank]);
    FILE *f = fopen(path, "re");
    while (f && fgets(line, sizeof line, f) && sscanf(line, "Pid: %ld", &pid) != 1) continue;
    if (f) fclose(f);
    return pid > 0 ? pid : 0;
}

/* Keep as lost only the ranks whose processes have ended, and those whose processes cannot be seen from here: of other
 * machines, or gone before anyone looked. If all are alive, all stay lost. A process loses its connections a moment
 * before it ends, hence the wait. */
static int only_ended(const gs_gloo_state *s, int size, bool *lost) {
    int ended = 0, unseen = 0, losses = 0;
    for (int r = 0; r < size; r++) unseen += lost[r] && s->process[r] < 0;
    for (int ms = 0; ended == 0 && ms < 100; ms++) {
        for (int r = 0; r < size; r++) ended += lost[r] && gs_process_watched_has_ended(s->process[r]);
        if (ended == 0) gs_nap(1e-3);
    }
    for (int r = 0; r < size; r++) {
        lost[r] = lost[r] && ((ended == 0 && unseen == 0) || s->process[r] < 0 ||
                              gs_process_watched_has_ended(s->process[r]));
        losses += lost[r];
    }
    return losses;
}

/* ---- failing ---- */

gs_status gs_gloo_failed(const gs_gloo_state *s) {
    return gs_fail(s->code, "%s", s->message);
}

/* With the lock held, and for the first failure only. */
static void set_failed(const gs_comm *c, gs_status code, const char *message) {
    gs_gloo_state *s = c->state;
    snprintf(s->message, sizeof s->message, "%s", message);
    s->code = code;
    atomic_store(&s->failed, true);
    if (s->gloo) gs_gloo_close(c, s->message);
}

void gs_gloo_abort(gs_comm *c, const char *message) {
    gs_gloo_state *s = c->state;
    pthread_mutex_lock(&s->lock);
    if (!atomic_load(&s->failed)) set_failed(c, GS_E_PEER, message);
    pthread_mutex_unlock(&s->lock);
}

gs_status gs_gloo_heed(gs_comm *c) {
    gs_gloo_state *s = c->state;
    char words[GS_LAST_WORDS];
    if (!atomic_load(&s->failed) && pthread_mutex_trylock(&s->lock) == 0) {
        for (int r = 0; r < c->size && !atomic_load(&s->failed); r++)
            if (r != c->rank && gs_gloo_peer(s, r, words, sizeof words) == GS_GLOO_LAST_WORDS)
                set_failed(c, GS_E_PEER, words);
        pthread_mutex_unlock(&s->lock);
    }
    return atomic_load(&s->failed) ? gs_gloo_failed(s) : GS_OK;
}

/* The connection that broke may be the second one to a peer (direct.c). Wait until the first one breaks too: it is
 * known to have delivered the peer's last words before that. */
static void wait_for_the_end_of_one(const gs_comm *c) {
    gs_gloo_state *s = c->state;
    char text[GS_LAST_WORDS];
    for (int ms = 0; ms < 1000; ms++) {
        for (int r = 0; r < c->size; r++)
            if (r != c->rank && gs_gloo_peer(s, r, text, sizeof text) != GS_GLOO_CONNECTED) return;
        gs_nap(1e-3);
    }
}

static void explain_late(const gs_comm *c, const bool *awaited, bool one_of, const gs_gloo_notes *notes,
                         char *message, size_t size) {
    const gs_gloo_state *s = c->state;
    long *pid = calloc((size_t)(unsigned)c->size, sizeof *pid);
    uint64_t *last = calloc((size_t)(unsigned)c->size, sizeof *last);
    for (int r = 0; pid && r < c->size; r++) pid[r] = gs_gloo_process(s, r);
    for (int r = 0; last && r < c->size; r++) last[r] = atomic_load(&s->heard[r]);
    gs_waits late = {.noun = s->noun, .size = c->size, .rank = c->rank, .timeout = c->timeout};
    late.awaited = awaited;
    late.one_of = one_of;
    late.age = notes->age;
    late.pid = pid;
    late.silent = notes->silent;
    late.address = (const char(*)[GS_ADDRESS])s->address;
    late.host = (const char(*)[GS_HOST])s->host;
    late.last = last;
    late.did = "was last heard of in";
    if (pid && notes->age && notes->silent) gs_waits_explain(&late, message, size);
    free(pid);
    free(last);
}

/* Why `what` failed with `e`, in one sentence. `peer` is the other rank of the operation, or -1. The caller holds the
 * lock. */
static void find_cause(gs_comm *c, const gs_gloo_error *e, int peer, const char *what, char *message,
                       size_t size) {
    gs_gloo_state *s = c->state;
    bool *lost = calloc((size_t)c->size, sizeof *lost);
    int losses = 0;
    gs_gloo_notes notes = {0};
    if (e->code == GS_GLOO_LOST) wait_for_the_end_of_one(c);
    if (e->code == GS_GLOO_TIMEOUT) notes = gs_gloo_hear_waits(c);
    char how[GS_LAST_WORDS] = "", words[GS_LAST_WORDS] = "";
    for (int r = 0; lost && r < c->size; r++) {
        char text[GS_LAST_WORDS];
        gs_gloo_peer_state state = r == c->rank ? GS_GLOO_CLOSED : gs_gloo_peer(s, r, text, sizeof text);
        if (state == GS_GLOO_LAST_WORDS) snprintf(words, sizeof words, "%s", text);
        if (state != GS_GLOO_BROKEN) continue;
        lost[r] = true;
        if (losses++ == 0) snprintf(how, sizeof how, "%s", text);
    }
    if (losses > 1 && !words[0]) losses = only_ended(s, c->size, lost);
    snprintf(message, size, "%s %d: %s: ", s->noun, c->rank, what);
    if (words[0]) {
        snprintf(message, size, "%s", words);
    } else if (losses > 0) {
        gs_append_ranks(message, size, s->noun, 0, c->size, lost);
        gs_append(message, size, " %s lost (%s)", losses > 1 ? "were" : "was", how);
        gs_append_hosts(message, size, c->size, lost, (const char(*)[GS_HOST])s->host);
    } else if (e->code == GS_GLOO_TIMEOUT && lost) {
        for (int r = 0; r < c->size; r++) lost[r] = peer < 0 ? r != c->rank : r == peer;
        explain_late(c, lost, peer < 0, &notes, message, size);
    } else {
        gs_append(message, size, "%s", e->text);
    }
    free(lost);
    free(notes.age);
    free(notes.silent);
}

gs_status gs_gloo_lost(gs_comm *c, const gs_gloo_error *e, int peer, const char *format, ...) {
    gs_gloo_state *s = c->state;
    char what[WHAT], message[GS_LAST_WORDS];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    if (e->code == GS_GLOO_TIMEOUT) gs_gloo_tell_wait(c, peer);
    pthread_mutex_lock(&s->lock);
    if (!atomic_load(&s->failed)) {
        find_cause(c, e, peer, what, message, sizeof message);
        set_failed(c, e->code == GS_GLOO_MEMORY ? GS_E_MEMORY : GS_E_PEER, message);
    }
    pthread_mutex_unlock(&s->lock);
    return gs_gloo_failed(s);
}
