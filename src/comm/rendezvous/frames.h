/* The messages on a connection to the store (store_server.h). First both ends prove that they know the run's key. They
 * use the handshake of handshake.h, with the key as both secrets and GS_STORE_NUMBER as the store's rank. Then each
 * message is a frame:
 *
 *     length of the body (4 bytes), kind (4 bytes), body, HMAC-SHA256(key of this direction; number, head, body)
 *
 * Frames are numbered from 0 in each direction, and the keys are derived from both nonces. A frame that is changed,
 * repeated, missing, or from another connection ends the connection. Frames are not encrypted: they hold no secret.
 */
#pragma once

#include <stddef.h>
#include "comm/handshake.h"

enum {
    GS_FRAME_BODY = 16384,       /* maximum, in bytes */
    GS_FRAME_LEAST = 8 + GS_MAC, /* head and HMAC */
    GS_FRAME_MOST = GS_FRAME_LEAST + GS_FRAME_BODY,
    GS_STORE_LINE = 0x73746f72, /* `line` in a hello to a store */
};
#define GS_STORE_NUMBER 0xffffffffu

/* Requests to the store, each followed by its answers. */
typedef enum gs_frame_kind {
    GS_FRAME_PUT = 'p',    /* key, 0, value, 0 */
    GS_FRAME_DONE = 'd',   /* the pair has been added */
    GS_FRAME_THERE = 't',  /* the key existed; its value, 0 */
    GS_FRAME_NEWS = 'n',   /* n, a space, milliseconds, 0: asks for the pairs after the first n */
    GS_FRAME_PAIRS = 'e',  /* key, 0, value, 0 of each; empty if none arrived within that time */
    GS_FRAME_COUNT = 'c',  /* asks for the number of strangers */
    GS_FRAME_NUMBER = 'm', /* the answer as text, 0 */
    GS_FRAME_BYE = 'b',    /* this process is done; has no answer */
} gs_frame_kind;

/* One end of a connection. */
typedef struct gs_frames {
    int socket; /* set by the owner; gs_frames_begin does not change it */
    unsigned char out_key[GS_SECRET], in_key[GS_SECRET];
    unsigned long long out, in; /* numbers of the next frames */
    unsigned char frame[GS_FRAME_MOST];
    /* The last frame received, in `frame`: */
    gs_frame_kind kind;
    const char *body; /* ends with 0 unless it is empty */
    size_t bytes;
} gs_frames;

/* Begin after the exchange of these hellos. is_caller: this end is the caller. */
void gs_frames_begin(gs_frames *, const unsigned char key[GS_SECRET], const gs_hello *caller,
                     const gs_hello *listener, bool is_caller);

/* False: no frame could be sent, or none arrived, before `until` (gs_awake_seconds); or the frame's MAC is wrong. */
bool gs_frame_send(gs_frames *, gs_frame_kind, const void *body, size_t bytes, double until);
bool gs_frame_receive(gs_frames *, double until);

/* Split a body of the form key, 0, value, 0. False: it is not a pair. */
bool gs_frame_pair(const gs_frames *, const char **key, const char **value);
