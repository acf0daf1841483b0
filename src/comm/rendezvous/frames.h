/* The messages on a connection to the store (store_server.h). First both ends prove that they know the run's key, by
 * the handshake of handshake.h with the key as both secrets; the store's rank is GS_STORE_NUMBER. Then each message is
 * a frame:
 *
 *     length of the body (4 bytes), kind (4 bytes), body, HMAC-SHA256(key of this direction; number, head, body)
 *
 * Frames are numbered from 0 in each direction, and the keys are derived from both nonces. A frame that is changed,
 * repeated, missing, or from another connection ends the connection. Frames are not encrypted: they contain no secret.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include "comm/handshake.h"

enum {
    GS_FRAME_BODY = 16384,       /* bytes at most */
    GS_FRAME_LEAST = 8 + GS_MAC, /* with head and HMAC */
    GS_FRAME_MOST = GS_FRAME_LEAST + GS_FRAME_BODY,
    GS_STORE_LINE = 0x73746f72, /* the line of a hello to a store */
};
#define GS_STORE_NUMBER 0xffffffffu

/* Requests to the store, each followed by its answers. */
typedef enum gs_frame_kind {
    GS_FRAME_PUT = 'p',    /* key, 0, value, 0 */
    GS_FRAME_DONE = 'd',   /* the pair is there now */
    GS_FRAME_THERE = 't',  /* the key existed; its value, 0 */
    GS_FRAME_NEWS = 'n',   /* n, a blank, milliseconds, 0: which pairs follow the first n? */
    GS_FRAME_PAIRS = 'e',  /* key, 0, value, 0 of each; empty, if none arrived in that time */
    GS_FRAME_COUNT = 'c',  /* how many strangers came? */
    GS_FRAME_NUMBER = 'm', /* the answer as text, 0 */
    GS_FRAME_BYE = 'b',    /* this process is done: no answer */
} gs_frame_kind;

/* One end. */
typedef struct gs_frames {
    int socket; /* the owner's: gs_frames_begin does not change it */
    unsigned char out_key[GS_SECRET], in_key[GS_SECRET];
    unsigned long long out, in; /* the next numbers */
    unsigned char frame[GS_FRAME_MOST];
    /* The last frame received, in `frame`: */
    gs_frame_kind kind;
    const char *body; /* ends with 0, if it is not empty */
    size_t bytes;
} gs_frames;

/* After the exchange of these hellos. is_caller: this end has called. */
void gs_frames_begin(gs_frames *, const unsigned char key[GS_SECRET], const gs_hello *caller,
                     const gs_hello *listener, bool is_caller);

/* False: before `until` (gs_awake_seconds) it could not be sent, or none arrived, or its MAC is wrong. */
bool gs_frame_send(gs_frames *, gs_frame_kind, const void *body, size_t bytes, double until);
bool gs_frame_receive(gs_frames *, double until);

/* Split the body, "key 0 value 0". False: it is not a pair. */
bool gs_frame_pair(const gs_frames *, const char **key, const char **value);
