/* What a hand-in may contain. A verdict does not depend on it (remote/remote.h); but whoever includes a neighbour's
 * file, defines the library's functions or hides from the sanitizer has not done the lab. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Each returns NULL, or a sentence that says what is wrong, which lives until the next call. */

/* The student's own lines after the preprocessor, `text` with the compiler's line markers: no assembly, no attributes,
 * no pragmas, no #line, no #include behind a #define, no names of the sanitizers. `file`: the student's, as the
 * compiler was told. */
const char *lab_check_words(const char *text, const char *file);

/* `list`: what the compiler has read, as make rules. Allowed are the system's headers and those of this tree that are
 * headers: src/, cpu/ and lessons/. */
const char *lab_check_includes(const char *list, const char *file);

/* `symbols`: nm -P of the object file. `may_call`: names of the library's, NULL ends them; the C library's common
 * functions are allowed always. `must_define`: nm -P of the object that calls the student's functions. */
const char *lab_check_symbols(const char *symbols, const char *const *may_call, const char *must_define);

/* `text`: a whole lab.cl, as it was handed in. kernel_check.c */
const char *lab_check_kernels(const char *text);
