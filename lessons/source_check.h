/* Checks the contents of a hand-in. No verdict depends on these checks (remote/remote.h), but a hand-in that includes a
 * neighbour's file, defines the library's functions or hides from the sanitizer has not solved the lab. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Each function returns NULL or a sentence that says what is wrong; the sentence is valid until the next call. */

/* Checks the student's own lines after preprocessing (`text`, with the compiler's line markers): no assembly, no
 * attributes, no pragmas, no #line, no #include after a #define, no names of the sanitizers. `file`: the path of the
 * student's file, as given to the compiler. */
const char *lab_check_words(const char *text, const char *file);

/* `list`: the files that the compiler read, as make rules. Allowed are the system's headers and the headers of src/,
 * cpu/ and lessons/. */
const char *lab_check_includes(const char *list, const char *file);

/* `symbols`: nm -P of the object file. `may_call`: names of library functions, ending with NULL; the C library's common
 * functions are always allowed. `must_define`: nm -P of the object that calls the student's functions. */
const char *lab_check_symbols(const char *symbols, const char *const *may_call, const char *must_define);

/* `text`: a whole lab.cl, not preprocessed. Defined in kernel_check.c. */
const char *lab_check_kernels(const char *text);
