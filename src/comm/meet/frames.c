#include "comm/meet/frames.h"
#include "comm/meet/secret.h"
#include "comm/meet/store.h"
#include "core/nettle.h"

#include <string.h>

enum { HEAD = 8 };

void gs_frames_begin(gs_frames *f, const unsigned char key[GS_SECRET], const gs_hello *caller,
                     const gs_hello *listener, int is_caller) {
    gs_hello both[2] = {*caller, *listener};
    *f = (gs_frames){.out = 0};
    gs_key_derive(key, "frames of the caller", both, sizeof both, is_caller ? f->out_key : f->in_key);
    gs_key_derive(key, "frames of the store", both, sizeof both, is_caller ? f->in_key : f->out_key);
}

static void sign(const unsigned char key[GS_SECRET], unsigned long long number, const unsigned char *frame,
                 size_t bytes, unsigned char mac[GS_PROOF]) {
    struct hmac_sha256_ctx context;
    hmac_sha256_set_key(&context, GS_SECRET, key);
    hmac_sha256_update(&context, sizeof number, (const uint8_t *)&number);
    hmac_sha256_update(&context, bytes, frame);
    GS_DIGEST(hmac_sha256_digest, &context, mac);
}

size_t gs_frame_write(gs_frames *f, gs_frame_kind kind, const void *body, size_t bytes, unsigned char *to) {
    uint32_t head[2] = {(uint32_t)bytes, (uint32_t)kind};
    memcpy(to, head, HEAD);
    if (bytes > 0) memcpy(to + HEAD, body, bytes);
    sign(f->out_key, f->out++, to, HEAD + bytes, to + HEAD + bytes);
    return HEAD + bytes + GS_PROOF;
}

long gs_frame_read(gs_frames *f, const unsigned char *in, size_t have, gs_frame_kind *kind, const char **body,
                   size_t *bytes) {
    uint32_t head[2];
    unsigned char mac[GS_PROOF];
    if (have < HEAD) return 0;
    memcpy(head, in, HEAD);
    if (head[0] > GS_FRAME_BODY) return -1;
    if (have < HEAD + head[0] + GS_PROOF) return 0;
    sign(f->in_key, f->in++, in, HEAD + head[0], mac);
    if (!gs_proof_equal(mac, in + HEAD + head[0])) return -1;
    *kind = (gs_frame_kind)head[1];
    *body = (const char *)in + HEAD;
    *bytes = head[0];
    if (head[0] > 0 && (*body)[head[0] - 1] != '\0') return -1;
    return HEAD + (long)head[0] + GS_PROOF;
}

bool gs_frame_receive(int socket, gs_frames *f, double until, unsigned char *in, gs_frame_kind *kind,
                      const char **body, size_t *bytes) {
    uint32_t length;
    if (!gs_socket_move(socket, false, in, HEAD, until)) return false;
    memcpy(&length, in, sizeof length);
    return length <= GS_FRAME_BODY && gs_socket_move(socket, false, in + HEAD, length + GS_PROOF, until) &&
           gs_frame_read(f, in, HEAD + length + GS_PROOF, kind, body, bytes) > 0;
}

int gs_frame_pair(const char *body, size_t bytes, const char **key, const char **value) {
    const size_t length = bytes > 0 ? strlen(body) : 0;
    if (length == 0 || length >= GS_STORE_KEY || length + 1 >= bytes) return 0;
    *key = body;
    *value = body + length + 1;
    return strlen(*value) + length + 2 == bytes && strlen(*value) < GS_STORE_VALUE;
}
