/* Helpers for text: appending, making untrusted text safe for a terminal, and finding what a misspelt word means. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include "core/error.h"

/* Append to `text`, a buffer of `size` bytes. Text that does not fit is cut off. */
void gs_append(char *text, size_t size, const char *format, ...) GS_PRINTF(3, 4);

/* Do the first `length` bytes of `text` end with `end`? */
bool gs_ends_with(const char *text, size_t length, const char *end);

/* Copy `from` for output to a terminal, so that nothing in it acts as a command. UTF-8 is unchanged. Control
 * characters, characters that change the writing direction, and bytes that are not UTF-8 become \n, \t or \xNN, except
 * for the ASCII characters in `keep`. The copy is cut to `size` bytes, after a whole character. Returns `to`. */
char *gs_printable_into(char *to, size_t size, const char *from, const char *keep);

/* Like gs_printable_into, but in a thread-local buffer, cut after about 80 bytes; four results may be in use at once.
 * For names found in a file: gs_fail(..., "%s has no %s", path, gs_printable(name)). */
const char *gs_printable(const char *text);

/* Decode the UTF-8 character (RFC 3629) at `at`, in a text that ends with a 0. Returns its length, 1 to 4 bytes; 0 if
 * the bytes are not valid. */
int gs_utf8_read(const char *at, uint32_t *code);

/* The same for text that arrives piecewise, `bytes` bytes so far. -1: these may be the start of a longer character. */
int gs_utf8_read_part(const char *at, size_t bytes, uint32_t *code);

/* Writes the character's 1 to 4 bytes and a 0 after them. Returns the number of bytes. */
int gs_utf8_write(uint32_t code, char to[5]);

/* The entry of `names` (lower case, NULL-terminated) that the first `length` characters of `word` probably mean,
 * ignoring case. At most a third of the characters may be wrong or, in a word of two, one. An entry equal to `word`
 * does not count. NULL: none is close enough. */
const char *gs_nearest(const char *word, size_t length, const char *const *names);

/* "; did you mean ring?" for the end of a message, or "". In a thread-local buffer that the next call overwrites. */
const char *gs_did_you_mean(const char *word, const char *const *names);

/* GS_E_USAGE, "unknown transport 'shn'; choose one of: auto, shm, gloo; did you mean shm?". what: "transport". */
gs_status gs_no_such(const char *what, const char *word, const char *const *names);
