#include "comm/gloo/pieces.h"
#include "comm/transports.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct gs_gloo_spare {
    gs_gloo_buffer *buffer; /* over piece */
    gs_gloo_spare *next;
    unsigned char piece[GS_GLOO_PIECE];
};

static gs_gloo_spare *create(gs_gloo *g, gs_gloo_error *e) {
    gs_gloo_spare *spare = malloc(sizeof *spare); /* not calloc, which may touch all of it */
    if (!spare) {
        gs_gloo_explain(e, GS_GLOO_MEMORY, "out of memory");
        return NULL;
    }
    spare->buffer = NULL;
    if (gs_gloo_buffer_create(g, spare->piece, sizeof spare->piece, true, &spare->buffer, e) == GS_GLOO_OK)
        return spare;
    free(spare);
    return NULL;
}

static void free_list(gs_gloo_spare *spare) {
    while (spare) {
        gs_gloo_spare *next = spare->next;
        gs_gloo_buffer_free(spare->buffer);
        free(spare);
        spare = next;
    }
}

void gs_gloo_spares_free(gs_gloo_spares *s) {
    free_list(s->first);
    free_list(s->idle);
    *s = (gs_gloo_spares){0};
}

/* Ask for what is to come into idle spares, until `wanted` pieces have been asked for. */
static gs_gloo_code ask(gs_gloo_spares *s, size_t wanted, int from, uint64_t slot, gs_gloo_error *e) {
    while (s->idle && s->count - s->idles < wanted) {
        gs_gloo_spare *spare = s->idle;
        gs_gloo_code code = gs_gloo_begin_recv(spare->buffer, from, slot, e);
        if (code != GS_GLOO_OK) return code;
        s->idle = spare->next;
        s->idles--;
        spare->next = NULL;
        *(s->first ? &s->last->next : &s->first) = spare;
        s->last = spare;
    }
    return GS_GLOO_OK;
}

/* Have spares for so many pieces, or for some of them. */
static gs_gloo_code make(gs_gloo_spares *s, gs_gloo *g, size_t wanted, gs_gloo_error *e) {
    for (; s->count < wanted && s->count < GS_GLOO_SPARES; s->count++) {
        gs_gloo_spare *one = create(g, e);
        if (!one) break;
        one->next = s->idle;
        s->idle = one;
        s->idles++;
    }
    return s->count == 0 ? e->code : GS_GLOO_OK;
}

/* The first spare has been emptied. */
static void retire_first(gs_gloo_spares *s) {
    gs_gloo_spare *spare = s->first;
    s->first = spare->next;
    spare->next = s->idle;
    s->idle = spare;
    s->idles++;
}

static gs_gloo_code check_length(const gs_gloo_spare *spare, int from, size_t bytes, gs_gloo_error *e) {
    uint64_t theirs;
    char text[sizeof e->text];
    memcpy(&theirs, spare->piece, sizeof theirs);
    if (theirs == bytes) return GS_GLOO_OK;
    snprintf(text, sizeof text, GS_OTHER_LENGTH, bytes, "rank", from, (size_t)theirs);
    return gs_gloo_explain(e, GS_GLOO_OTHER, text);
}

/* Emptied spares are asked for again by the next receive, as if it asked for its own message; in the middle of a long
 * one, many at once. Each request takes the lock of the connection, for which Gloo's thread polls while data come in.
 * Where no more can be asked for, because the sender has gone, the spares that have been filled still count.
 *
 * Ahead: for two messages, and for the short ones before them (checked.c, linked.c). */
gs_gloo_code gs_gloo_spares_receive(gs_gloo_spares *s, gs_gloo *g, bool ahead, int from, uint64_t slot,
                                    void *data, size_t bytes, int timeout_ms, gs_gloo_error *e) {
    unsigned char *to = data;
    const size_t pieces = gs_gloo_pieces_of(bytes), wanted = ahead ? 2 * (pieces + 1) : pieces;
    gs_gloo_code code = make(s, g, wanted, e);
    if (code == GS_GLOO_OK) code = ask(s, wanted, from, slot, e);
    for (size_t i = 0; i < pieces; i++) {
        if (i > 0 && (!s->first || s->idles >= GS_GLOO_SPARES / 4))
            code = ask(s, ahead ? wanted : pieces - i, from, slot, e);
        if (!s->first) return code;
        code = gs_gloo_wait_recv(s->first->buffer, timeout_ms, e);
        if (code == GS_GLOO_OK) code = check_length(s->first, from, bytes, e);
        if (code != GS_GLOO_OK) return code;
        memcpy(to + i * GS_GLOO_LOAD, s->first->piece + GS_GLOO_HEAD, gs_gloo_load_of(bytes, i));
        retire_first(s);
    }
    return GS_GLOO_OK;
}
