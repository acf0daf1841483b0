/* The handshake: how two ranks on a new connection prove to each other that they belong to the same run.
 *
 * Anybody can connect to a rank that listens: another user of this machine, or a port scanner. So each rank makes a
 * secret. Only those who may read the rank's file in the rendezvous folder can read it. Both ends of a connection show
 * that they know the secrets of both:
 *
 *     caller    hello: from, to, line, nonce                       ->
 *               <-    hello: from, to, line, nonce; proof              listener
 *     caller    proof                                              ->
 *               <-    GS_HANDSHAKE_OK                                  listener
 *
 *     proof = HMAC-SHA256(key = secret of the lower rank, secret of the higher one;
 *                         message = rank that proves, hello of the caller, hello of the listener)
 *
 * The nonces are fresh, so an overheard proof is useless; the rank in it prevents a listener's own proof from being
 * sent back to it. What follows on the connection is neither encrypted nor signed: an attacker who can change packets
 * is not kept out.
 *
 * Source of HMAC: RFC 2104. Only for src/comm/.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include "core/error.h"

enum { GS_SECRET = 32, GS_NONCE = 32, GS_MAC = 32 /* bytes */, GS_HANDSHAKE_OK = 'k' };

/* As it travels. */
typedef struct gs_hello {
    char magic[8];
    uint32_t from, to; /* ranks */
    uint32_t line;     /* which of the connections between them */
    uint32_t zero;
    unsigned char nonce[GS_NONCE];
} gs_hello;

/* What the listener answers. */
typedef struct gs_hello_answer {
    gs_hello hello;
    unsigned char proof[GS_MAC];
} gs_hello_answer;

/* Random bytes that nobody can guess. GS_E_FILE: the system gives none. */
gs_status gs_secret_make(unsigned char *secret, int bytes);

gs_status gs_hello_make(uint32_t from, uint32_t to, uint32_t line, gs_hello *);

/* Is it a valid hello to rank `to`? */
bool gs_hello_fits(const gs_hello *, uint32_t to);

/* `low`, `high`: the secrets of the two ranks. */
void gs_handshake_proof(const unsigned char *low, const unsigned char *high, uint32_t prover,
                        const gs_hello *caller, const gs_hello *listener, unsigned char proof[GS_MAC]);
bool gs_mac_equal(const unsigned char *a, const unsigned char *b);
