/* The secret of a run that meets at a store (store.h): by it the processes recognise each other. It is a text of 16
 * bytes or more. It comes from the first of
 *
 *     GRADSUM_SECRET                the text itself
 *     GRADSUM_SECRET_FILE           a file that holds it
 *     ~/.config/gradsum/secret      such a file, made by the first run of this user
 *
 * (XDG_CONFIG_HOME replaces ~/.config.) It is never on a command line, which other users can read. A file counts only
 * if it belongs to this user, and no other can read it. On machines that do not share the home folder, copy the file.
 *
 * What the processes use is a key made of it, which differs for each run that has a name of its own:
 *
 *     key = HMAC-SHA256(key = the text; message = "gradsum run " and the name)
 *
 * Only for src/comm/ and the launcher.
 */
#pragma once

#include "comm/comm.h"
#include "comm/handshake.h"

/* GS_E_FILE: there is no such file, and none can be made; or others can read it. GS_E_USAGE: it is too short. */
gs_status gs_run_key(const char *run, unsigned char key[GS_SECRET]);

/* Where the secret comes from, for messages: "GRADSUM_SECRET", "/home/ann/.config/gradsum/secret". Returns `text`. */
const char *gs_secret_source(char *text, size_t size);

/* out = HMAC-SHA256(key; label, data) */
void gs_key_derive(const unsigned char key[GS_SECRET], const char *label, const void *data, size_t bytes,
                   unsigned char out[GS_SECRET]);
