/* What the classes of a set are called, for a person to read: nothing is computed from it. */
#pragma once

#include <stddef.h>

#include "data/vocabulary.h"

typedef struct gs_class_names {
    int count; /* 0: they have only numbers */
    char **name;
} gs_class_names;

/* Of a text with a name on each line; one of fewer than `classes` lines gives none. */
gs_class_names gs_class_names_of_lines(const char *text, size_t bytes, int classes);

/* The characters of a text, a space as "' '"; of bytes and byte pairs none. */
gs_class_names gs_class_names_of_tokens(const gs_vocabulary *);
void gs_class_names_free(gs_class_names *);

/* Class k's name as a terminal may show it, cut after some 40 bytes; its number if it has none. `room` is for it. */
enum { GS_CLASS_NAME = 48 };
const char *gs_class_name(const gs_class_names *, int k, char room[GS_CLASS_NAME]);
