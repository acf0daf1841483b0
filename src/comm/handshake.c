#include "comm/handshake.h"
#include "core/nettle.h"

#include <errno.h>
#include <nettle/memops.h>
#include <string.h>
#include <unistd.h>

static const char magic[] = "gradsum1";
_Static_assert(GS_MAC == SHA256_DIGEST_SIZE, "a MAC is a whole digest");

gs_status gs_secret_make(unsigned char *secret, int bytes) {
    if (getentropy(secret, (size_t)bytes) == 0) return GS_OK;
    return gs_fail(GS_E_FILE, "the system provides no random bytes for a secret: %s", strerror(errno));
}

gs_status gs_hello_make(uint32_t from, uint32_t to, uint32_t line, gs_hello *h) {
    *h = (gs_hello){.from = from, .to = to, .line = line};
    memcpy(h->magic, magic, sizeof h->magic);
    return gs_secret_make(h->nonce, GS_NONCE);
}

bool gs_hello_fits(const gs_hello *h, uint32_t to) {
    return memcmp(h->magic, magic, sizeof h->magic) == 0 && h->to == to && h->zero == 0;
}

static void prove(const unsigned char *low, const unsigned char *high, uint32_t prover,
                  const gs_hello *caller, const gs_hello *listener, unsigned char proof[GS_MAC]) {
    struct hmac_sha256_ctx context;
    unsigned char key[2 * GS_SECRET];
    memcpy(key, low, GS_SECRET);
    memcpy(key + GS_SECRET, high, GS_SECRET);
    hmac_sha256_set_key(&context, sizeof key, key);
    hmac_sha256_update(&context, sizeof prover, (const uint8_t *)&prover);
    hmac_sha256_update(&context, sizeof *caller, (const uint8_t *)caller);
    hmac_sha256_update(&context, sizeof *listener, (const uint8_t *)listener);
    GS_DIGEST(hmac_sha256_digest, &context, proof);
}

bool gs_handshake_answer(const gs_hello *caller, const unsigned char *low, const unsigned char *high,
                         gs_hello_answer *mine, unsigned char wanted[GS_MAC]) {
    if (gs_hello_make(caller->to, caller->from, caller->line, &mine->hello) != GS_OK) return false;
    prove(low, high, caller->to, caller, &mine->hello, mine->proof);
    prove(low, high, caller->from, caller, &mine->hello, wanted);
    return true;
}

bool gs_handshake_prove(const gs_hello *caller, const gs_hello_answer *answer, const unsigned char *low,
                        const unsigned char *high, unsigned char proof[GS_MAC]) {
    const gs_hello *theirs = &answer->hello;
    unsigned char wanted[GS_MAC];
    prove(low, high, caller->to, caller, theirs, wanted);
    prove(low, high, caller->from, caller, theirs, proof);
    return gs_hello_fits(theirs, caller->from) && theirs->from == caller->to &&
           theirs->line == caller->line && gs_mac_equal(wanted, answer->proof);
}

bool gs_mac_equal(const unsigned char *a, const unsigned char *b) {
    return memeql_sec(a, b, GS_MAC);
}
