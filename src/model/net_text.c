/* The text of a net, the other way round from model_text.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "model/model_text.h"

static bool is(const gs_layer *l, const char *name) {
    return strcmp(l->ops->name, name) == 0;
}

static void write_layer(FILE *f, const gs_layer *l);

static void write_list(FILE *f, const gs_layer *l, const char *between) {
    for (int i = 0; i < l->children; i++) {
        if (i > 0) fputs(between, f);
        write_layer(f, l->child[i]);
    }
}

/* What stands where the grammar says "model": a sequence is its layers. */
static void write_model(FILE *f, const gs_layer *l) {
    if (is(l, "sequential"))
        write_list(f, l, ", ");
    else
        write_layer(f, l);
}

static void write_layer(FILE *f, const gs_layer *l) {
    if (is(l, "residual")) {
        fputs("residual (", f);
        write_model(f, l->child[0]);
        if (l->children > 1) fputs(" | ", f);
        if (l->children > 1) write_model(f, l->child[1]);
        fputs(")", f);
    } else if (is(l, "sequential")) {
        fputs("(", f);
        write_list(f, l, ", ");
        fputs(")", f);
    } else {
        char what[128];
        gs_layer_describe(l, what, sizeof what);
        fputs(what, f);
    }
}

char *gs_model_text_of(const gs_layer *net) {
    char *text = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    if (!f) return NULL;
    write_model(f, net);
    bool failed = ferror(f) != 0;
    if (fclose(f) == 0 && !failed) return text;
    free(text);
    return NULL;
}
