/* "Did you mean ...?" for a word that is one of a list, but misspelt. */
#pragma once

#include <stddef.h>

#include "core/error.h"

/* The entry of `names` (NULL ends them; lower case) that somebody who wrote the first `length` letters of `word` may
 * have meant. NULL: none is near, or the word is one of them. Case does not count. Near means at most a third of the
 * letters wrong, or one of two. */
const char *gs_nearest(const char *word, size_t length, const char *const *names);

/* "; did you mean ring?" for the end of a message, or "". In a buffer of this thread's: the next call changes it. */
const char *gs_did_you_mean(const char *word, const char *const *names);

/* GS_E_USAGE, "unknown transport 'shn'; choose one of: auto, shm, gloo; did you mean shm?". what: "transport". */
gs_status gs_no_such(const char *what, const char *word, const char *const *names);
