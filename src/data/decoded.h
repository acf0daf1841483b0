/* Pictures that were decoded once and are kept in memory: --cache. Each has `bytes` bytes, as in a sample, and is kept
 * when it has been read for the first time. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include "core/error.h"

typedef struct gs_decoded gs_decoded;

/* GS_E_MEMORY: the machine does not have enough memory to spare; the message says how much is needed. */
gs_status gs_decoded_create(size_t count, size_t bytes, gs_decoded **out);
void gs_decoded_free(gs_decoded *); /* NULL is allowed */

/* By any number of threads at once. get: false: it is not there. */
bool gs_decoded_get(gs_decoded *, size_t i, unsigned char *to);
void gs_decoded_put(gs_decoded *, size_t i, const unsigned char *from);
