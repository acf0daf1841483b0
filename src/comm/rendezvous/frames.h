/* What is said on a connection to the store (store_server.h), once both ends have proven that they know the run's key.
 * The handshake is that of handshake.h, with the run's key as both secrets; the store's number is GS_STORE_NUMBER. From
 * then on each message is a frame:
 *
 *     length of the body (4 bytes), kind (4 bytes), body, HMAC-SHA256(key of this direction; number, head, body)
 *
 * Frames are numbered from 0 in each direction, and the keys come from the nonces of both. So a frame that is changed,
 * sent twice, left out, or taken from another connection is noticed, and ends the connection. Frames are not encrypted:
 * no secret is in them.
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

/* Of each pair the first goes to the store, and the others are its answers. */
typedef enum gs_frame_kind {
    GS_FRAME_PUT = 'p',    /* key, 0, value, 0 */
    GS_FRAME_DONE = 'd',   /* the pair is there now */
    GS_FRAME_THERE = 't',  /* the key was there; its value, 0 */
    GS_FRAME_NEWS = 'n',   /* a number, a blank, milliseconds, 0: what came behind so many pairs? */
    GS_FRAME_PAIRS = 'e',  /* key, 0, value, 0 of the next ones; nothing, where none came in that time */
    GS_FRAME_COUNT = 'c',  /* how many strangers came? */
    GS_FRAME_NUMBER = 'm', /* a text that says so, 0 */
    GS_FRAME_BYE = 'b',    /* this process is done: no answer */
} gs_frame_kind;

/* One end. */
typedef struct gs_frames {
    int socket; /* of whoever has the frames: gs_frames_begin leaves it alone */
    unsigned char out_key[GS_SECRET], in_key[GS_SECRET];
    unsigned long long out, in; /* the next numbers */
    unsigned char frame[GS_FRAME_MOST];
    /* Of the one that came last, in `frame`: */
    gs_frame_kind kind;
    const char *body; /* ends with 0, if it is not empty */
    size_t bytes;
} gs_frames;

/* Of a connection whose ends have said these hellos. is_caller: this end is. */
void gs_frames_begin(gs_frames *, const unsigned char key[GS_SECRET], const gs_hello *caller,
                     const gs_hello *listener, bool is_caller);

/* False: until then (of gs_awake_seconds) it could not be sent, or none has come, or one that is not of the other
 * end. */
bool gs_frame_send(gs_frames *, gs_frame_kind, const void *body, size_t bytes, double until);
bool gs_frame_receive(gs_frames *, double until);

/* Split the body, "key 0 value 0". False: it is no such pair. */
bool gs_frame_pair(const gs_frames *, const char **key, const char **value);
