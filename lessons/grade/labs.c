#include "lessons/grade/labs.h"

#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/text.h"

gs_labs gs_labs_of_tree(const char *tree) {
    char pattern[PATH_MAX + 40];
    glob_t found = {0};
    gs_labs labs = {0};
    size_t begin = strlen(tree) + strlen("/lessons/");
    snprintf(pattern, sizeof pattern, "%s/lessons/[0-9][0-9]-*/remote.c", tree);
    if (glob(pattern, 0, NULL, &found) == 0)
        for (size_t i = 0; i < found.gl_pathc; i++) labs.has[atoi(found.gl_pathv[i] + begin)] = true;
    globfree(&found);
    return labs;
}

/* Reads "6" or "06"; -1: it is not a number of one or two digits. */
static int number_of(const char *word, size_t length) {
    bool digits = strspn(word, "0123456789") >= length;
    return length >= 1 && length <= 2 && digits ? atoi(word) : -1;
}

static gs_status unknown(const char *text, const char *word, size_t length) {
    char lab[24];
    snprintf(lab, sizeof lab, "%.*s", (int)length, word);
    return gs_fail(GS_E_USAGE, "--labs %s: unknown lab '%s'; wanted numbers such as 06,07",
                   gs_printable(text), gs_printable(lab));
}

gs_status gs_labs_parse(const char *text, const gs_labs *known, gs_labs *labs) {
    static const char between[] = ", \t";
    *labs = (gs_labs){0};
    for (const char *word = text + strspn(text, between); *word;) {
        size_t length = strcspn(word, between);
        int number = number_of(word, length);
        if (number < 0 || !known->has[number]) return unknown(text, word, length);
        labs->has[number] = true;
        word += length;
        word += strspn(word, between);
    }
    if (gs_labs_next(labs, 0) >= 0) return GS_OK;
    return gs_fail(GS_E_USAGE, "--labs %s: names no lab; wanted numbers such as 06,07", gs_printable(text));
}

int gs_labs_next(const gs_labs *labs, int from) {
    for (int n = from; n < GS_LABS; n++)
        if (labs->has[n]) return n;
    return -1;
}
