/* Tile sizes: the defaults, and parsing of others. */
#include "cl/cl.h"

#include <stdlib.h>

gs_cl_tiles gs_cl_tiles_default(bool gpu, int vector) {
    /* Enough sums for most vector registers: AVX-512 has 32, other CPUs 16. More would not help: too few registers
     * would remain for the factors, and the rows of large matrices, which are read at the same time, would evict each
     * other from the L1 cache. */
    return (gs_cl_tiles){.gpu = gpu,
                         .vector = vector,
                         .rows = vector == 16 ? 8 : 6,
                         .dot_rows = vector == 16 ? 6 : 3,
                         .unroll = 1,
                         .pack = 1200,
                         .tile = 64,
                         .each = 4,
                         .step = 16};
}

static bool is_one_of(int value, int a, int b, int c) {
    return value == a || value == b || value == c;
}

static bool allowed(const gs_cl_tiles *t) {
    if (t->gpu)
        return is_one_of(t->tile, 32, 64, 128) && is_one_of(t->each, 4, 8, 8) &&
               is_one_of(t->step, 8, 16, 32) && gs_cl_group(t) >= (size_t)t->tile && gs_cl_group(t) <= 1024;
    return is_one_of(t->vector, 4, 8, 16) && t->rows >= 1 && t->rows <= 16 && t->dot_rows >= 1 &&
           t->dot_rows <= 8 && t->unroll >= 1 && t->unroll <= 8 && t->pack >= 0;
}

/* Parse "name=number" and assign to the member of that name. */
static bool assign(gs_cl_tiles *t, const char *word) {
    const struct {
        const char *name;
        int *value;
    } members[] = {{"vector", &t->vector}, {"rows", &t->rows}, {"dot_rows", &t->dot_rows},
                   {"unroll", &t->unroll}, {"pack", &t->pack}, {"tile", &t->tile},
                   {"each", &t->each},     {"step", &t->step}};
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        size_t length = strlen(members[i].name);
        if (strncmp(word, members[i].name, length) != 0 || word[length] != '=') continue;
        char *end;
        long value = strtol(word + length + 1, &end, 10);
        if (end == word + length + 1 || *end || value < 0 || value > 1000000) return false;
        *members[i].value = (int)value;
        return true;
    }
    return false;
}

bool gs_cl_tiles_parse(const char *text, gs_cl_tiles *out) {
    char copy[160], *rest;
    gs_cl_tiles t = *out;
    if (strlen(text) >= sizeof copy) return false;
    strcpy(copy, text);
    const char *kind = strtok_r(copy, " ", &rest);
    if (!kind) return false;
    if (strcmp(kind, "gpu") == 0)
        t.gpu = true;
    else if (strcmp(kind, "cpu") == 0)
        t.gpu = false;
    else if (strcmp(kind, "cpu4") == 0 || strcmp(kind, "cpu8") == 0 || strcmp(kind, "cpu16") == 0)
        t = gs_cl_tiles_default(false, (int)strtol(kind + 3, NULL, 10));
    else
        return false;
    for (const char *word = strtok_r(NULL, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
        if (!assign(&t, word)) return false;
    if (!allowed(&t)) return false;
    *out = t;
    return true;
}
