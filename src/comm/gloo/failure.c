/* Failures over Gloo: find the rank to blame, tell the others, and make every later operation fail at once.
 *
 * How a failure spreads: a rank that fails (or calls abort) sends its message to all connected ranks, and closes its
 * connections, so each operation that waits for it fails too. A waiting rank finds the message, passes it on in the
 * same way, and returns it. All ranks end with the first message, so none of them names a rank that stopped only
 * because of another.
 *
 * A message that is cut off in the middle blocks the failure message behind it, which is then lost. The others can
 * still check whether the sender is alive, if it is a process of their machine; a sender that is alive is not to blame.
 *
 * After a timeout no rank is lost yet, and the connections are still open, so the ranks first tell each other for whom
 * they wait.
 */
#include "comm/gloo/state.h"
#include "core/process.h"
#include "core/clock.h"
#include "core/text.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

/* ---- Gloo's sentences ---- */

/* After a timeout on this side (which close_all causes on purpose), Gloo reports "Application timeout caused pair
 * closure" on every connection. */
static const char CLOSED_HERE[] = "Application timeout";

static _Thread_local char said[GS_GLOO_ERROR_TEXT];

const char *gs_gloo_error_text(void) {
    return said;
}

gs_gloo_code gs_gloo_explain(gs_gloo_code code, const char *what) {
    const char *end = what[0] == '[' ? strstr(what, "] ") : NULL;
    const char *text = end ? end + 2 : what;
    if (strncmp(text, "Connection closed by peer", 25) == 0) text = "connection closed";
    if (strstr(text, "reset by peer")) text = "connection reset";
    bool late = (strstr(text, "Timed out") || strstr(text, "timeout")) && !strstr(text, CLOSED_HERE);
    snprintf(said, sizeof said, "%s", text);
    return code == GS_GLOO_LOST && late ? GS_GLOO_TIMEOUT : code;
}

/* ---- listening ----
 *
 * A failure message arrives before the connection ends. A receive for it is pending from the start, but is not waited
 * for until the connection has ended, because a timeout would close the connection.
 */

struct gs_gloo_inbox {
    char words[GS_FAILURE_TEXT];
    gs_gloo_buffer *buffer; /* over words; NULL: this rank's own inbox */
    bool arrived;
    gs_gloo_buffer *note; /* over the sender's row of the notes */
};

gs_gloo_code gs_gloo_listen(gs_gloo_state *s, int rank, int size) {
    const size_t n = (size_t)size;
    s->inboxes = calloc(n, sizeof *s->inboxes);
    if (!s->inboxes) return gs_gloo_explain(GS_GLOO_MEMORY, "out of memory");
    gs_gloo_code code = GS_GLOO_OK;
    for (int r = 0; code == GS_GLOO_OK && r < size; r++) {
        gs_gloo_inbox *inbox = &s->inboxes[r];
        if (r == rank) continue;
        code = gs_gloo_buffer_create(s->gloo, inbox->words, sizeof inbox->words, false, &inbox->buffer);
        if (code == GS_GLOO_OK) code = gs_gloo_begin_recv(inbox->buffer, r, GS_GLOO_FAILURE_SLOT);
        if (code == GS_GLOO_OK)
            code = gs_gloo_buffer_create(s->gloo, s->notes + (size_t)r * n, n, true, &inbox->note);
        if (code == GS_GLOO_OK) code = gs_gloo_begin_recv(inbox->note, r, GS_GLOO_NOTES_SLOT);
    }
    s->listens = code == GS_GLOO_OK;
    return code;
}

void gs_gloo_free_inboxes(gs_gloo_state *s, int size) {
    gs_gloo_buffer_free(s->told_by);
    for (int r = 0; s->inboxes && r < size; r++) {
        gs_gloo_buffer_free(s->inboxes[r].buffer);
        gs_gloo_buffer_free(s->inboxes[r].note);
    }
    free(s->inboxes);
}

/* The state of the connection to a peer. */
typedef enum peer_state {
    CONNECTED,
    SAID_WHY,     /* the peer closed it; the text is its failure message */
    BROKEN,       /* the peer is gone; the text is the symptom */
    CLOSED_BY_US, /* this side closed it */
} peer_state;

/* A rank counts as silent after ATTEMPTS retransmissions (the first after at least 200 ms, each later one after twice
 * the previous time) and SILENT_MS without a sign of it. If only some packets are lost, one of the attempts arrives. */
enum { ATTEMPTS = 2, SILENT_MS = 400 };

/* TCP's statistics on a line to the peer. */
static struct tcp_info ask(const gs_gloo_state *s, int line, int peer) {
    struct tcp_info info = {0};
    socklen_t length = sizeof info;
    getsockopt(s->socket[line * s->comm.size + peer], IPPROTO_TCP, TCP_INFO, &info, &length);
    return info;
}

/* True if on some line nothing reaches `peer`, neither data nor TCP's probes. TCP counts its retransmissions of
 * unacknowledged data, and the kernel acknowledges even for a process that hangs or is stopped. Therefore several
 * retransmissions without a sign of the peer mean that the network is cut, or its machine is down. */
static bool is_silent(const gs_gloo_state *s, int peer) {
    for (int line = 0; line < s->lines; line++) {
        const struct tcp_info info = ask(s, line, peer);
        if (info.tcpi_retransmits + info.tcpi_probes >= ATTEMPTS && info.tcpi_last_ack_recv >= SILENT_MS)
            return true;
    }
    return false;
}

/* The peer's state while there are no inboxes. */
static peer_state peer_by_line(const gs_gloo_state *s, int peer, char *text, size_t size) {
    for (int line = 0; line < s->lines; line++) {
        if (ask(s, line, peer).tcpi_state == TCP_ESTABLISHED) continue;
        snprintf(text, size, "connection closed");
        return BROKEN;
    }
    return CONNECTED;
}

/* Only one thread at a time may call it. */
static peer_state look_at_peer(gs_gloo_state *s, int peer, char *text, size_t size) {
    if (!s->listens) return peer_by_line(s, peer, text, size);
    gs_gloo_inbox *inbox = &s->inboxes[peer];
    peer_state state = CONNECTED;
    if (gs_watchdog_look(s->watchdog, peer) != GS_GLOO_OK) {
        state = strstr(said, CLOSED_HERE) ? CLOSED_BY_US : BROKEN;
        snprintf(text, size, "%s", said);
        if (!inbox->arrived) inbox->arrived = gs_gloo_wait_recv(inbox->buffer, 1) == GS_GLOO_OK;
    }
    if (inbox->arrived) {
        state = SAID_WHY;
        snprintf(text, size, "%.*s", GS_FAILURE_TEXT, inbox->words);
    }
    return state;
}

/* ---- going ---- */

/* Closing a connection does not wake the threads here that wait for it; a timeout closes it and wakes them. */
static void hang_up(gs_gloo *g) {
    char nothing;
    gs_gloo_buffer *buffer = NULL;
    if (gs_gloo_buffer_create(g, &nothing, 1, false, &buffer) == GS_GLOO_OK) gs_gloo_wait_recv(buffer, 1);
    gs_gloo_buffer_free(buffer);
}

/* NULL: the peer can no longer be told. */
static gs_gloo_buffer *tell(gs_gloo *g, char *words, int peer) {
    gs_gloo_buffer *buffer = NULL;
    if (gs_gloo_buffer_create(g, words, GS_FAILURE_TEXT, false, &buffer) == GS_GLOO_OK &&
        gs_gloo_begin_send(buffer, peer, GS_GLOO_FAILURE_SLOT, 0, GS_FAILURE_TEXT) == GS_GLOO_OK)
        return buffer;
    gs_gloo_buffer_free(buffer);
    return NULL;
}

/* Tell the peers that are still connected why this rank leaves, and close all connections. Every operation that waits
 * in this process fails, in any thread; so does every operation of a peer that waits for this rank. */
static void close_all(const gs_comm *c, const char *failure) {
    gs_gloo_state *s = c->state;
    char words[GS_FAILURE_TEXT] = "";
    gs_gloo_buffer **told = calloc((size_t)c->size, sizeof *told);
    snprintf(words, sizeof words, "%s", failure);
    for (int r = 0; told && r < c->size; r++)
        if (r != c->rank) told[r] = tell(s->gloo, words, r);
    for (int r = 0; told && r < c->size; r++)
        if (told[r]) gs_gloo_wait_send(told[r], 500);
    hang_up(s->gloo);
    for (int r = 0; told && r < c->size; r++) gs_gloo_buffer_free(told[r]);
    free(told);
    for (int i = 0; i < s->lines * c->size; i++)
        if (s->socket[i] >= 0) shutdown(s->socket[i], SHUT_RDWR); /* what was sent before still arrives */
}

/* ---- notes: which rank waits for which ----
 *
 * Before a rank gives up, it sends a note to all others that says for whom it waits, and whom it cannot reach. The
 * connections are still open, and a note overtakes blocked messages, because its receive is pending from the start.
 *
 *     rank 0   late: 1               rank 0 waits for rank 1
 *     rank 1   late: 2               rank 1 waits for rank 2, which has sent no note: rank 2 is to blame
 *     rank 1   late: 2, silent: 0    no rank is to blame: the network is cut between ranks 1 and 0
 */

enum { LATE = 1, SILENT = 2 }; /* bits of each byte of a note, which has one byte per rank */

void gs_gloo_tell_wait(gs_comm *c, const int *peers, int count) {
    gs_gloo_state *s = c->state;
    const size_t size = (size_t)c->size;
    unsigned char *own = s->notes + (size_t)c->rank * size;
    pthread_mutex_lock(&s->waits);
    for (int r = 0; r < c->size && !s->told; r++) {
        bool late = count == 0;
        for (int i = 0; i < count; i++) late = late || peers[i] == r;
        if (r != c->rank) own[r] = (late ? LATE : 0) | (is_silent(s, r) ? SILENT : 0);
    }
    if (!s->told && s->listens && gs_gloo_buffer_create(s->gloo, own, size, false, &s->told_by) == GS_GLOO_OK)
        for (int r = 0; r < c->size; r++)
            if (r != c->rank) gs_gloo_begin_send(s->told_by, r, GS_GLOO_NOTES_SLOT, 0, size);
    s->told = true;
    pthread_mutex_unlock(&s->waits);
}

/* The contents of all notes, as in waits.h. */
typedef struct wait_notes {
    double *age;
    bool *silent;
} wait_notes;

/* A note's entry for its own rank is ignored. */
static void take_note(const gs_comm *c, int from, const wait_notes *notes) {
    const gs_gloo_state *s = c->state;
    for (int at = from * c->size; at < (from + 1) * c->size; at++) {
        if (at == from * c->size + from) continue;
        if (s->notes[at] & LATE) notes->age[at] = c->timeout;
        if (s->notes[at] & SILENT) notes->silent[at] = true;
    }
}

/* Take the notes that arrive in time; the other ranks give up at about the same time as this one. Stop if a rank has
 * gone, because its failure message says more. If a process is stopped, no notes are needed to name it. A late note
 * closes no connection, because the watchdog ends the wait. */
static void take_notes(const gs_comm *c, const wait_notes *notes) {
    const gs_gloo_state *s = c->state;
    const double end = gs_awake_seconds() + fmin(fmax(c->timeout / 2, 0.2), 2);
    for (int r = 0; r < c->size; r++)
        if (r != c->rank && s->pid[r] > 0 && gs_process_is_stopped(s->pid[r])) return;
    for (int r = 0; r < c->size; r++) {
        const double left = end - gs_awake_seconds();
        if (r == c->rank || is_silent(s, r)) continue;
        const gs_gloo_code code = gs_gloo_wait_recv(s->inboxes[r].note, gs_gloo_milliseconds(left));
        if (code == GS_GLOO_OK) take_note(c, r, notes);
        if (code == GS_GLOO_LOST || left < -1) return;
    }
}

/* Call gs_gloo_tell_wait first. The caller frees both arrays; NULL: out of memory. */
static wait_notes hear_waits(const gs_comm *c) {
    const gs_gloo_state *s = c->state;
    const size_t squares = (size_t)c->size * (size_t)c->size;
    wait_notes notes = {calloc(squares, sizeof *notes.age), calloc(squares, sizeof *notes.silent)};
    if (!notes.age || !notes.silent) return notes;
    if (s->told_by) take_notes(c, &notes);
    take_note(c, c->rank, &notes);
    for (int r = 0; r < c->size; r++) /* more may be known by now */
        if (r != c->rank && is_silent(s, r)) notes.silent[c->rank * c->size + r] = true;
    return notes;
}

/* ---- lost ranks ---- */

/* Keep as lost only those ranks whose processes have ended, or cannot be watched because they run on other machines or
 * had gone before the watch began. If all are alive, all stay lost. Wait up to 0.1 s first: a process that has lost its
 * connections may be about to end. */
static int only_ended(const gs_gloo_state *s, int size, bool *lost) {
    int ended = 0, unseen = 0, losses = 0;
    for (int r = 0; r < size; r++) unseen += lost[r] && s->process[r] < 0;
    for (int ms = 0; ended == 0 && ms < 100; ms++) {
        for (int r = 0; r < size; r++) ended += lost[r] && gs_process_watched_has_ended(s->process[r]);
        if (ended == 0) gs_sleep(1e-3);
    }
    for (int r = 0; r < size; r++) {
        lost[r] = lost[r] && ((ended == 0 && unseen == 0) || s->process[r] < 0 ||
                              gs_process_watched_has_ended(s->process[r]));
        losses += lost[r];
    }
    return losses;
}

/* ---- failing ---- */

/* Called with the lock held, for the first failure only. */
static void set_failed(const gs_comm *c, gs_status code, const char *message) {
    gs_gloo_state *s = c->state;
    snprintf(s->error.message, sizeof s->error.message, "%s", message);
    s->error.status = code;
    atomic_store(&s->failed, true);
    if (s->gloo) close_all(c, s->error.message);
}

void gs_gloo_abort(gs_comm *c, const char *message) {
    gs_gloo_state *s = c->state;
    pthread_mutex_lock(&s->lock);
    if (!atomic_load(&s->failed)) set_failed(c, GS_E_PEER, message);
    pthread_mutex_unlock(&s->lock);
}

gs_status gs_gloo_check_peers(gs_comm *c) {
    gs_gloo_state *s = c->state;
    char words[GS_FAILURE_TEXT];
    if (!atomic_load(&s->failed) && pthread_mutex_trylock(&s->lock) == 0) {
        for (int r = 0; r < c->size && !atomic_load(&s->failed); r++)
            if (r != c->rank && look_at_peer(s, r, words, sizeof words) == SAID_WHY)
                set_failed(c, GS_E_PEER, words);
        pthread_mutex_unlock(&s->lock);
    }
    return atomic_load(&s->failed) ? gs_error_again(&s->error) : GS_OK;
}

/* The broken connection may be the second one to a peer (direct.c). Wait until the first one breaks too, because it
 * delivers the peer's failure message before it breaks. */
static void wait_for_the_end_of_one(const gs_comm *c) {
    gs_gloo_state *s = c->state;
    char text[GS_FAILURE_TEXT];
    for (int ms = 0; ms < 1000; ms++) {
        for (int r = 0; r < c->size; r++)
            if (r != c->rank && look_at_peer(s, r, text, sizeof text) != CONNECTED) return;
        gs_sleep(1e-3);
    }
}

static void explain_late(const gs_comm *c, const bool *awaited, bool one_of, const wait_notes *notes,
                         char *message, size_t size) {
    const gs_gloo_state *s = c->state;
    gs_waits late = {.noun = s->noun, .size = c->size, .rank = c->rank, .timeout = c->timeout};
    late.awaited = awaited;
    late.one_of = one_of;
    late.age = notes->age;
    late.pid = s->pid;
    late.silent = notes->silent;
    late.address = (const char(*)[GS_ADDRESS])s->address;
    late.host = (const char(*)[GS_HOST])s->host;
    late.last = s->heard;
    late.did = "was last heard of in";
    if (notes->age && notes->silent) gs_waits_explain(&late, message, size);
}

/* Write the message for the failure of the operation `what` with this code and Gloo's sentence `how`. peer: the other
 * rank of the operation, or -1. The caller holds the lock. */
static void find_cause(gs_comm *c, gs_gloo_code code, const char *how, int peer, const char *what,
                       char *message, size_t size) {
    gs_gloo_state *s = c->state;
    bool *lost = calloc((size_t)c->size, sizeof *lost);
    int losses = 0;
    wait_notes notes = {0};
    if (code == GS_GLOO_LOST) wait_for_the_end_of_one(c);
    if (code == GS_GLOO_TIMEOUT) notes = hear_waits(c);
    char seen[GS_FAILURE_TEXT] = "", words[GS_FAILURE_TEXT] = "";
    for (int r = 0; lost && r < c->size; r++) {
        char text[GS_FAILURE_TEXT];
        peer_state state = r == c->rank ? CLOSED_BY_US : look_at_peer(s, r, text, sizeof text);
        if (state == SAID_WHY) snprintf(words, sizeof words, "%s", text);
        if (state != BROKEN) continue;
        lost[r] = true;
        if (losses++ == 0) snprintf(seen, sizeof seen, "%s", text);
    }
    if (losses > 1 && !words[0]) losses = only_ended(s, c->size, lost);
    snprintf(message, size, "%s %d: %s: ", s->noun, c->rank, what);
    if (words[0]) {
        snprintf(message, size, "%s", words);
    } else if (losses > 0) {
        gs_append_ranks(message, size, s->noun, 0, c->size, lost);
        gs_append(message, size, " %s lost (%s)", losses > 1 ? "were" : "was", seen);
        gs_append_hosts(message, size, c->size, lost, (const char(*)[GS_HOST])s->host);
    } else if (code == GS_GLOO_TIMEOUT && lost) {
        for (int r = 0; r < c->size; r++) lost[r] = peer < 0 ? r != c->rank : r == peer;
        explain_late(c, lost, peer < 0, &notes, message, size);
    } else {
        gs_append(message, size, "%s", how);
    }
    free(lost);
    free(notes.age);
    free(notes.silent);
}

gs_status gs_gloo_diagnose(gs_comm *c, gs_gloo_code code, int peer, const char *what) {
    gs_gloo_state *s = c->state;
    char how[GS_GLOO_ERROR_TEXT], message[GS_FAILURE_TEXT];
    snprintf(how, sizeof how, "%s", said);
    if (code == GS_GLOO_TIMEOUT) gs_gloo_tell_wait(c, &peer, peer >= 0);
    pthread_mutex_lock(&s->lock);
    if (!atomic_load(&s->failed)) {
        find_cause(c, code, how, peer, what, message, sizeof message);
        set_failed(c, code == GS_GLOO_MEMORY ? GS_E_MEMORY : GS_E_PEER, message);
    }
    pthread_mutex_unlock(&s->lock);
    return gs_error_again(&s->error);
}
