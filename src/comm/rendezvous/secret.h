/* The secret by which the processes of a run recognise each other when they meet at a store (store.h). It is a text of
 * at least 16 bytes, from the first of these that is set:
 *
 *     GRADSUM_SECRET                the text itself
 *     GRADSUM_SECRET_FILE           a file that holds it
 *     ~/.config/gradsum/secret      such a file, made by the first run of this user
 *
 * (XDG_CONFIG_HOME replaces ~/.config.) It is never on a command line, where other users could read it. The file must
 * belong to this user, and be unreadable to others. If machines do not share the home folder, copy the file to each.
 *
 * The processes use a key derived from the secret; runs with different names have different keys:
 *
 *     key = HMAC-SHA256(key = the text; message = "gradsum run " and the name)
 *
 * Only for src/comm/ and the launcher.
 */
#pragma once

#include "comm/comm.h"
#include "comm/handshake.h"

/* GS_E_FILE: the file is missing and cannot be made, or others can read it. GS_E_USAGE: the secret is too short. */
gs_status gs_run_key(const char *run, unsigned char key[GS_SECRET]);

/* The source of the secret, for messages: "GRADSUM_SECRET", "/home/ann/.config/gradsum/secret". Returns `text`. */
const char *gs_secret_source(char *text, size_t size);

/* out = HMAC-SHA256(key; label, data) */
void gs_key_derive(const unsigned char key[GS_SECRET], const char *label, const void *data, size_t bytes,
                   unsigned char out[GS_SECRET]);
