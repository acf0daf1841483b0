/* What a rank tells the others where they meet, in its file in the rendezvous folder or at a store: who and where it
 * is, at which address it listens, and its secret. Only its owner can read the file. What is in a store crosses the
 * network and can be overheard. So there, in place of the secret, is a nonce, of which those make the secret who know
 * the key of the run (rendezvous/secret.h).
 *
 *     rank 1 of 4, process 4711 on node7 5a1cf9c0-... pid:[4026531836]
 *     gradsum 0.1.0 to train over auto
 *     network 5a1cf9c0-... net:[4026531840], port 40123 at 10.0.0.7
 *     secret 6f1d...
 *
 * Only for src/comm/.
 */
#pragma once

#include <stdbool.h>
#include "comm/create.h"
#include "comm/handshake.h"
#include "comm/waits.h"

typedef struct gs_rank_info {
    int rank, size;
    long pid;
    char machine[256];  /* gs_machine_id */
    char version[32];   /* of gradsum */
    char purpose[16];   /* "train"; "work" where nobody said what for */
    char transport[64]; /* its name, and what else must be the same */
    char network[128];  /* where 127.0.0.1 means the same: a running kernel, and in it a network namespace */
    char address[GS_ADDRESS]; /* in numbers: where it listens */
    int port;                 /* 0: it does not */
    unsigned char secret[GS_SECRET], nonce[GS_NONCE];
} gs_rank_info;

/* This process's, complete but for address and port. */
gs_status gs_rank_info_create(const gs_rendezvous *, gs_rank_info *);

/* Its four lines, with the secret or with the nonce. */
void gs_rank_info_text(const gs_rank_info *, bool secret, char *text, size_t size);

/* Read the text, `words`, of the rank info of `rank`, and compare its world with that of `mine`; messages call the text
 * `source`. GS_E_FILE: it is not what a rank tells. GS_E_PEER: it is of a world of another size. */
gs_status gs_rank_info_parse(const gs_rank_info *mine, int rank, const char *words, const char *source,
                             gs_rank_info *);

/* Its secret is HMAC-SHA256(key of the run; rank, nonce). */
void gs_rank_info_derive(gs_rank_info *, const unsigned char key[GS_SECRET]);

/* Where process numbers mean the same: a host, its running kernel, and in that a process namespace. The kernel's number
 * tells machines apart that have the same name, as clones of one disk do. */
void gs_machine_id(char *text, size_t size);

/* Can the two belong to one run? GS_E_PEER: they differ in version or transport. GS_E_USAGE: they cannot be connected
 * at the addresses that they name, and GRADSUM_ADDRESS must say more. The message names both. */
gs_status gs_rank_info_compare(const gs_rank_info *mine, const gs_rank_info *other);
