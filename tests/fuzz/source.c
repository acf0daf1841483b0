/* A hand-in's preprocessed text, the list of its includes, and its symbols. */
#include "source_check.h"
#include "fuzz.h"
#include "sync/scheme.h"

#include <stdlib.h>
#include <string.h>

FUZZ(in) {
    static const char *const may[] = {"gs_sync_send", NULL};
    uint8_t what = fuzz_byte(in);
    char *text = fuzz_text(in);
    const char *wrong = what % 3 == 0   ? lab_check_words(text, "lab.c")
                        : what % 3 == 1 ? lab_check_includes(text, "lab.c")
                                        : lab_check_symbols(text, may, "ring U\n");
    if (wrong && (!*wrong || strlen(wrong) > 600)) fuzz_wrong("a sentence of %zu letters", strlen(wrong));
    free(text);
}
