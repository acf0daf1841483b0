/* Pictures that were decoded once and are kept: --cache. Each has `bytes` bytes, as in a sample.
 *
 *     memory    each is kept when it has been read for the first time
 *     a file    all are written before the first step, and read from there in this run and in later ones
 *
 * A file begins with a line, and then has a record for each picture: its state (1: here, 2: the file was broken), the
 * CRC-32 of its bytes, and the bytes. It is written whole or not at all (io/file.h). A file that was cut
 * off, changed or made of other pictures counts as missing; so does a record whose bytes do not match their CRC.
 *
 *     gradsum-pictures 1 KEY COUNT BYTES
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include "core/error.h"

typedef struct gs_decoded gs_decoded;

/* GS_E_MEMORY: the machine does not have enough memory to spare; the message says how much is needed. */
gs_status gs_decoded_in_memory(size_t count, size_t bytes, gs_decoded **out);

/* Open the file at `path`; *out is NULL if there is none of this key, which has at most 64 characters. */
gs_status gs_decoded_open(const char *path, const char *key, size_t count, size_t bytes, gs_decoded **out);

/* Write such a file. read(context, first, n, pictures, states) decodes some. GS_E_FILE, or what `read` returns. */
enum { GS_DECODED_BLOCK = 256 }; /* n at most */
typedef gs_status gs_decoded_reader(void *context, size_t first, size_t n, unsigned char *pictures,
                                    unsigned char *states);
gs_status gs_decoded_write(const char *path, const char *key, size_t count, size_t bytes,
                           gs_decoded_reader *read, void *context);

typedef enum gs_decoded_state { GS_DECODED_MISSING, GS_DECODED_HERE, GS_DECODED_BROKEN } gs_decoded_state;

/* By any number of threads at once. */
gs_decoded_state gs_decoded_get(gs_decoded *, size_t i, unsigned char *to);
void gs_decoded_put(gs_decoded *, size_t i, const unsigned char *from); /* does nothing for a file */

void gs_decoded_free(gs_decoded *);
