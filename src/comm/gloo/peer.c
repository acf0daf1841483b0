/* How the connection to a peer stands, and what it said before it went.
 *
 * Last words arrive before the connection ends. Gloo is asked to receive them from the start, but they are looked at
 * only once the connection has ended: a wait in vain would close it.
 */
#include "comm/gloo/state.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

/* ---- what a sentence of Gloo means ---- */

/* Gloo reports "Application timeout caused pair closure" on every connection after one wait on this side was too long
 * (or after gs_gloo_close let one time out). */
static const char CLOSED_HERE[] = "Application timeout";

bool gs_gloo_closed_here(const gs_gloo_error *error) {
    return strstr(error->text, CLOSED_HERE) != NULL;
}

gs_gloo_code gs_gloo_explain(gs_gloo_error *error, gs_gloo_code code, const char *what) {
    const char *end = what[0] == '[' ? strstr(what, "] ") : NULL;
    const char *text = end ? end + 2 : what;
    if (strncmp(text, "Connection closed by peer", 25) == 0) text = "connection closed";
    if (strstr(text, "reset by peer")) text = "connection reset";
    bool late = (strstr(text, "Timed out") || strstr(text, "timeout")) && !strstr(text, CLOSED_HERE);
    error->code = code == GS_GLOO_LOST && late ? GS_GLOO_TIMEOUT : code;
    snprintf(error->text, sizeof error->text, "%s", text);
    return error->code;
}

/* ---- listening ---- */

struct gs_gloo_ear {
    char words[GS_LAST_WORDS];
    gs_gloo_buffer *buffer; /* over words; NULL: of this rank itself */
    bool arrived;
};

gs_gloo_code gs_gloo_listen(gs_gloo_state *s, int rank, int size, gs_gloo_error *error) {
    s->ears = calloc((size_t)size, sizeof *s->ears);
    if (!s->ears) return gs_gloo_explain(error, GS_GLOO_MEMORY, "out of memory");
    gs_gloo_code code = GS_GLOO_OK;
    for (int r = 0; code == GS_GLOO_OK && r < size; r++) {
        gs_gloo_ear *ear = &s->ears[r];
        if (r == rank) continue;
        code = gs_gloo_buffer_create(s->gloo, ear->words, sizeof ear->words, false, &ear->buffer, error);
        if (code == GS_GLOO_OK) code = gs_gloo_begin_recv(ear->buffer, r, GS_GLOO_WORDS_SLOT, error);
    }
    s->listens = code == GS_GLOO_OK;
    return code;
}

void gs_gloo_free_ears(gs_gloo_state *s, int size) {
    for (int r = 0; s->ears && r < size; r++) gs_gloo_buffer_free(s->ears[r].buffer);
    free(s->ears);
}

/* A rank is silent after this many attempts in a row (the first after 200 ms or more, each later one after twice the
 * time) and no sign of it for this long. Where packets are lost only now and then, one of the attempts arrives. */
enum { ATTEMPTS = 2, SILENT_MS = 400 };

/* What TCP knows of a line to the peer. */
static struct tcp_info ask(const gs_gloo_state *s, int line, int peer) {
    struct tcp_info info = {0};
    socklen_t length = sizeof info;
    getsockopt(s->socket[line * s->comm.size + peer], IPPROTO_TCP, TCP_INFO, &info, &length);
    return info;
}

bool gs_gloo_is_silent(const gs_gloo_state *s, int peer) {
    for (int line = 0; line < s->lines; line++) {
        const struct tcp_info info = ask(s, line, peer);
        if (info.tcpi_retransmits + info.tcpi_probes >= ATTEMPTS && info.tcpi_last_ack_recv >= SILENT_MS)
            return true;
    }
    return false;
}

/* Before there are ears. */
static gs_gloo_peer_state peer_by_line(const gs_gloo_state *s, int peer, char *text, size_t size) {
    for (int line = 0; line < s->lines; line++) {
        if (ask(s, line, peer).tcpi_state == TCP_ESTABLISHED) continue;
        snprintf(text, size, "connection closed");
        return GS_GLOO_BROKEN;
    }
    return GS_GLOO_CONNECTED;
}

gs_gloo_peer_state gs_gloo_peer(gs_gloo_state *s, int peer, char *text, size_t size) {
    if (!s->listens) return peer_by_line(s, peer, text, size);
    gs_gloo_error error;
    gs_gloo_ear *ear = &s->ears[peer];
    gs_gloo_peer_state state = GS_GLOO_CONNECTED;
    if (gs_watch_look(s->watch, peer, &error) != GS_GLOO_OK) {
        state = gs_gloo_closed_here(&error) ? GS_GLOO_CLOSED : GS_GLOO_BROKEN;
        snprintf(text, size, "%s", error.text);
        if (!ear->arrived) ear->arrived = gs_gloo_wait_recv(ear->buffer, 1, &error) == GS_GLOO_OK;
    }
    if (ear->arrived) {
        state = GS_GLOO_LAST_WORDS;
        snprintf(text, size, "%.*s", GS_LAST_WORDS, ear->words);
    }
    return state;
}

/* ---- going ---- */

/* Closing a connection does not wake the threads that wait for it here. A wait that is too long closes it and wakes
 * them. */
static void hang_up(gs_gloo *g) {
    char nothing;
    gs_gloo_error error;
    gs_gloo_buffer *buffer = NULL;
    if (gs_gloo_buffer_create(g, &nothing, 1, false, &buffer, &error) == GS_GLOO_OK)
        gs_gloo_wait_recv(buffer, 1, &error);
    gs_gloo_buffer_free(buffer);
}

/* NULL: the peer cannot be told any more. */
static gs_gloo_buffer *tell(gs_gloo *g, char *words, int peer) {
    gs_gloo_error error;
    gs_gloo_buffer *buffer = NULL;
    if (gs_gloo_buffer_create(g, words, GS_LAST_WORDS, false, &buffer, &error) == GS_GLOO_OK &&
        gs_gloo_begin_send(buffer, peer, GS_GLOO_WORDS_SLOT, 0, GS_LAST_WORDS, &error) == GS_GLOO_OK)
        return buffer;
    gs_gloo_buffer_free(buffer);
    return NULL;
}

void gs_gloo_close(const gs_comm *c, const char *last_words) {
    gs_gloo_state *s = c->state;
    gs_gloo_error error;
    char words[GS_LAST_WORDS] = "";
    gs_gloo_buffer **told = calloc((size_t)c->size, sizeof *told);
    snprintf(words, sizeof words, "%s", last_words);
    for (int r = 0; told && r < c->size; r++)
        if (r != c->rank) told[r] = tell(s->gloo, words, r);
    for (int r = 0; told && r < c->size; r++)
        if (told[r]) gs_gloo_wait_send(told[r], 500, &error);
    hang_up(s->gloo);
    for (int r = 0; told && r < c->size; r++) gs_gloo_buffer_free(told[r]);
    free(told);
    for (int i = 0; i < s->lines * c->size; i++)
        if (s->socket[i] >= 0) shutdown(s->socket[i], SHUT_RDWR); /* what was sent before still arrives */
}
