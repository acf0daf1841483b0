#include "comm/rendezvous/frames.h"
#include "comm/rendezvous/secret.h"
#include "comm/rendezvous/store.h"
#include "core/nettle.h"

enum { HEAD = 8 };

void gs_frames_begin(gs_frames *f, const unsigned char key[GS_SECRET], const gs_hello *caller,
                     const gs_hello *listener, bool is_caller) {
    gs_hello both[2] = {*caller, *listener};
    f->out = f->in = 0;
    gs_key_derive(key, "frames of the caller", both, sizeof both, is_caller ? f->out_key : f->in_key);
    gs_key_derive(key, "frames of the store", both, sizeof both, is_caller ? f->in_key : f->out_key);
}

static void sign(const unsigned char key[GS_SECRET], unsigned long long number, const unsigned char *frame,
                 size_t bytes, unsigned char mac[GS_MAC]) {
    struct hmac_sha256_ctx context;
    hmac_sha256_set_key(&context, GS_SECRET, key);
    hmac_sha256_update(&context, sizeof number, (const uint8_t *)&number);
    hmac_sha256_update(&context, bytes, frame);
    GS_DIGEST(hmac_sha256_digest, &context, mac);
}

bool gs_frame_send(gs_frames *f, gs_frame_kind kind, const void *body, size_t bytes, double until) {
    const uint32_t head[2] = {(uint32_t)bytes, (uint32_t)kind};
    memcpy(f->frame, head, HEAD);
    if (bytes > 0) memcpy(f->frame + HEAD, body, bytes);
    sign(f->out_key, f->out++, f->frame, HEAD + bytes, f->frame + HEAD + bytes);
    return gs_socket_move(f->socket, true, f->frame, HEAD + bytes + GS_MAC, until);
}

bool gs_frame_receive(gs_frames *f, double until) {
    uint32_t head[2];
    unsigned char mac[GS_MAC];
    if (!gs_socket_move(f->socket, false, f->frame, HEAD, until)) return false;
    memcpy(head, f->frame, HEAD);
    f->kind = (gs_frame_kind)head[1];
    f->body = (const char *)f->frame + HEAD;
    f->bytes = head[0];
    if (f->bytes > GS_FRAME_BODY ||
        !gs_socket_move(f->socket, false, f->frame + HEAD, f->bytes + GS_MAC, until))
        return false;
    sign(f->in_key, f->in++, f->frame, HEAD + f->bytes, mac);
    return gs_mac_equal(mac, f->frame + HEAD + f->bytes) && (f->bytes == 0 || !f->body[f->bytes - 1]);
}

bool gs_frame_pair(const gs_frames *f, const char **key, const char **value) {
    const size_t length = f->bytes > 0 ? strlen(f->body) : 0;
    if (length == 0 || length >= GS_STORE_KEY || length + 1 >= f->bytes) return false;
    *key = f->body;
    *value = f->body + length + 1;
    return strlen(*value) + length + 2 == f->bytes && strlen(*value) < GS_STORE_VALUE;
}
