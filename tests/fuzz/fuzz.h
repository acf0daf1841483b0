/* Fuzzing: what the harnesses of this folder share.
 *
 * A harness gives arbitrary bytes to one parser, and the sanitizers watch. It is a file of a few lines, NAME.c. Beside
 * it may lie
 *
 *     NAME.seeds   inputs to begin with, one a line, as printf's %b reads them: \n, \x00; lines with # are comments
 *     NAME.dict    words of the format, for libFuzzer's -dict
 *
 * `make fuzz SECONDS=60` builds and runs all of them. An input that crashes is kept in build/fuzz/found/NAME-*; run it
 * again with build/fuzz/bin/NAME FILE.
 *
 * Where a parser is a static function its harness includes the .c file: the linker then takes nothing of that file from
 * the library.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "comm/create.h"

/* What libFuzzer calls. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
#define FUZZ(input)                                                                                          \
    static void fuzz_one(fuzz_input *);                                                                      \
    int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {                                           \
        fuzz_input in = {data, size};                                                                        \
        fuzz_one(&in);                                                                                       \
        return 0;                                                                                            \
    }                                                                                                        \
    static void fuzz_one(fuzz_input *input)

/* The bytes of an input that are still to be used. */
typedef struct fuzz_input {
    const uint8_t *data;
    size_t size;
} fuzz_input;

/* The next byte; 0 at the end. */
uint8_t fuzz_byte(fuzz_input *);

/* The next bytes; zeros from the end on. */
void fuzz_bytes(fuzz_input *, void *to, size_t count);

/* All the rest, with a 0 behind it, in a block of just that size; to be freed. */
char *fuzz_text(fuzz_input *);

/* The words of a command: the lines of `text`, which is cut up. At most MOST, and NULL after the last. */
enum { FUZZ_WORDS = 32 };
int fuzz_words(char *text, char *words[FUZZ_WORDS + 1]);

/* A file with these bytes, whose name stays the same; its path. */
const char *fuzz_file(const void *data, size_t size);

/* The same for a folder in which `name` is the file; its path. `which`, 0 to 2: it may hold several. */
enum { FUZZ_FILES = 4 };
const char *fuzz_folder(const char *name, int which, const void *data, size_t size);

/* A comm of `size` ranks of which this is one; the others say what the input says. It ends with GS_E_PEER when the
 * input does. Valid as long as the input is. */
gs_comm fuzz_comm(fuzz_input *, int rank, int size);

/* The programming mistakes that an input may cause, because it stands for the other side's program: run `call`, from
 * which gs_bug() returns here. Only for what holds no memory meanwhile. */
void fuzz_allow_bugs(void (*call)(void *), void *context);

/* Stop with this sentence: a parser has broken a promise. */
void fuzz_wrong(const char *format, ...) GS_PRINTF(1, 2) __attribute__((noreturn));
