#include "data/dataset.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "core/text.h"

void gs_class_names_free(gs_class_names *n) {
    for (int i = 0; i < n->count; i++) free(n->name[i]);
    free(n->name);
    *n = (gs_class_names){0};
}

gs_class_names gs_class_names_of_lines(const char *text, size_t bytes, int classes) {
    gs_class_names n = {.name = calloc((size_t)classes + 1, sizeof *n.name)};
    const char *end = text + bytes;
    while (n.name && n.count < classes && text < end) {
        const char *line_end = memchr(text, '\n', (size_t)(end - text)),
                   *next = line_end ? line_end + 1 : end;
        if (!line_end) line_end = end;
        while (line_end > text && (line_end[-1] == '\r' || line_end[-1] == ' ')) line_end--;
        if (line_end == text || !(n.name[n.count] = strndup(text, (size_t)(line_end - text)))) break;
        n.count++;
        text = next;
    }
    if (n.count < classes) gs_class_names_free(&n);
    return n;
}

gs_class_names gs_class_names_of_tokens(const gs_vocabulary *v) {
    if (v->kind != GS_TOKENS_CHARS) return (gs_class_names){0};
    gs_class_names n = {.name = calloc((size_t)v->size + 1, sizeof *n.name)};
    for (int k = 0; k < v->size && n.name; k++, n.count++) {
        char text[5];
        gs_utf8_write(v->character[k], text);
        if (!(n.name[k] = strdup(v->character[k] == ' ' ? "' '" : text))) break;
    }
    if (n.count < v->size) gs_class_names_free(&n);
    return n;
}

const char *gs_class_name(const gs_class_names *n, int k, char room[GS_CLASS_NAME]) {
    if (k < n->count) return gs_printable_into(room, GS_CLASS_NAME, n->name[k], "");
    snprintf(room, GS_CLASS_NAME, "%d", k);
    return room;
}
