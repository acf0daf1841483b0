/* Shared code of the fuzzing harnesses in this folder.
 *
 * A harness passes arbitrary bytes to one parser under the sanitizers. It is a short file, NAME.c, optionally with
 *
 *     NAME.seeds   initial inputs, one per line, as printf's %b reads them: \n, \x00; "# " begins a comment
 *     NAME.dict    words of the format, for libFuzzer's -dict
 *
 * `make fuzz SECONDS=60` builds and runs all of them. Inputs that crash are saved as build/fuzz/found/NAME-*; run them
 * again with build/fuzz/bin/NAME FILE.
 *
 * If a parser is a static function, its harness includes the parser's .c file; the linker then takes nothing from the
 * library's copy of that file.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "comm/create.h"

/* The function that libFuzzer calls. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
#define FUZZ(input)                                                                                          \
    static void fuzz_one(fuzz_input *);                                                                      \
    int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {                                           \
        fuzz_input in = {data, size};                                                                        \
        fuzz_one(&in);                                                                                       \
        return 0;                                                                                            \
    }                                                                                                        \
    static void fuzz_one(fuzz_input *input)

/* The unread bytes of an input. */
typedef struct fuzz_input {
    const uint8_t *data;
    size_t size;
} fuzz_input;

/* The next byte; 0 at the end. */
uint8_t fuzz_byte(fuzz_input *);

/* Copies the next bytes; zeros after the end. */
void fuzz_bytes(fuzz_input *, void *to, size_t count);

/* The rest of the input, with a 0 appended, in a block of exactly that size; free it. */
char *fuzz_text(fuzz_input *);

/* The words of a command: the lines of `text`, which is modified. At most FUZZ_WORDS, NULL-terminated. */
enum { FUZZ_WORDS = 32 };
int fuzz_words(char *text, char *words[FUZZ_WORDS + 1]);

/* Writes a file with these bytes, under a constant name; returns its path. */
const char *fuzz_file(const void *data, size_t size);

/* The same for a folder that contains the file as `name`; returns its path. `which`, 0 to 2: one of several folders. */
enum { FUZZ_FILES = 4 };
const char *fuzz_folder(const char *name, int which, const void *data, size_t size);

/* A comm of `size` ranks, of which this is `rank`; the input determines what the others send. Calls fail with GS_E_PEER
 * at the end of the input. The comm is valid as long as the input. */
gs_comm fuzz_comm(fuzz_input *, int rank, int size);

/* Runs `call`, and also returns if it calls gs_bug(). For inputs that play another program, which may make a program's
 * mistakes. Only for calls that hold no memory when they call gs_bug(). */
void fuzz_allow_bugs(void (*call)(void *), void *context);

/* Stops with this message, because a parser has broken a promise. */
void fuzz_wrong(const char *format, ...) GS_PRINTF(1, 2) __attribute__((noreturn));
