/* Growing text, text of unknown origin on its way to a terminal, and misspelt words. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "core/error.h"

/* Append to `text`, which has room for `size` bytes. The rest is cut off. */
void gs_append(char *text, size_t size, const char *format, ...) GS_PRINTF(3, 4);

/* Do the first `length` bytes of `text` end with these? */
bool gs_ends_with(const char *text, size_t length, const char *end);

/* Copy `from` for a terminal, so that nothing in it acts as a command. UTF-8 is unchanged. Control characters,
 * characters that change the direction of writing, and bytes that are not UTF-8 become \n, \t or \xNN, except the ASCII
 * ones in `keep`. The copy is cut to `size` bytes, after a whole character. Returns `to`. */
char *gs_printable_into(char *to, size_t size, const char *from, const char *keep);

/* The same in a buffer of this thread, cut after some 80 bytes; four results may be in use at once. For names that a
 * file contains: gs_fail(..., "%s has no %s", path, gs_printable(name)). */
const char *gs_printable(const char *text);

/* The character of UTF-8 (RFC 3629) at `at`, and its length in bytes, 1 to 4; 0: none. A 0 ends the text. */
int gs_utf8_read(const char *at, uint32_t *code);

/* The same for a text that arrives in pieces, with `bytes` bytes so far. -1: the bytes may begin a character. */
int gs_utf8_read_part(const char *at, size_t bytes, uint32_t *code);

/* The character's bytes, 1 to 4, and a 0 behind them. Returns how many. */
int gs_utf8_write(uint32_t code, char to[5]);

/* The entry of `names` (ended by NULL; lower case) that the first `length` letters of `word` may mean. NULL: none is
 * near, or the word is one of them. Case does not count. Near means at most a third of the letters wrong, or one of
 * two. */
const char *gs_nearest(const char *word, size_t length, const char *const *names);

/* "; did you mean ring?" for the end of a message, or "". In a buffer of this thread that the next call overwrites. */
const char *gs_did_you_mean(const char *word, const char *const *names);

/* GS_E_USAGE, "unknown transport 'shn'; choose one of: auto, shm, gloo; did you mean shm?". what: "transport". */
gs_status gs_no_such(const char *what, const char *word, const char *const *names);
