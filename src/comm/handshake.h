/* The handshake: two ranks on a new connection prove to each other that they belong to the same run.
 *
 * Anyone can connect to a listening rank: another user of this machine, or a port scanner. Therefore each rank has a
 * secret, derived from the nonce in its entry and the run's key (rank_info.h). Both ends of a connection show that they
 * know both secrets:
 *
 *     caller    hello: from, to, line, nonce                       ->
 *               <-    hello: from, to, line, nonce; proof              listener
 *     caller    proof                                              ->
 *               <-    GS_HANDSHAKE_OK                                  listener
 *
 *     proof = HMAC-SHA256(key = secret of the lower rank, secret of the higher one;
 *                         message = rank that proves, hello of the caller, hello of the listener)
 *
 * The nonces are fresh, so an overheard proof is useless; the rank in a proof prevents a listener's proof from being
 * sent back to it. Later data on the connection are neither encrypted nor signed, so this does not keep out an attacker
 * who can change packets.
 *
 * Source of HMAC: RFC 2104. Only for src/comm/.
 */
#pragma once

#include <stdint.h>
#include "core/error.h"

enum { GS_SECRET = 32, GS_NONCE = 32, GS_MAC = 32 /* bytes */, GS_HANDSHAKE_OK = 'k' };

/* In network format. */
typedef struct gs_hello {
    char magic[8];
    uint32_t from, to; /* ranks */
    uint32_t line;     /* which of the connections between them */
    uint32_t zero;
    unsigned char nonce[GS_NONCE];
} gs_hello;

/* The listener's answer. */
typedef struct gs_hello_answer {
    gs_hello hello;
    unsigned char proof[GS_MAC];
} gs_hello_answer;

/* Cryptographic random bytes. GS_E_FILE: the system provides none. */
gs_status gs_secret_make(unsigned char *secret, int bytes);

gs_status gs_hello_make(uint32_t from, uint32_t to, uint32_t line, gs_hello *);

/* True if it is a valid hello to rank `to`. */
bool gs_hello_fits(const gs_hello *, uint32_t to);

/* `low`, `high`: the secrets of the two ranks.
 *
 * The listener's side: make the answer to a valid hello, and the proof that the caller must then send (wanted). False:
 * the system provides no random bytes. */
bool gs_handshake_answer(const gs_hello *caller, const unsigned char *low, const unsigned char *high,
                         gs_hello_answer *, unsigned char wanted[GS_MAC]);

/* The caller's side: make its proof after the answer. False: the answer is not from that rank of this run. */
bool gs_handshake_prove(const gs_hello *caller, const gs_hello_answer *, const unsigned char *low,
                        const unsigned char *high, unsigned char proof[GS_MAC]);
bool gs_mac_equal(const unsigned char *a, const unsigned char *b);
