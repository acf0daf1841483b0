/* One file of an image folder: read, decoded, cropped and resized to a sample. */
#pragma once

#include "data/folder_list.h"
#include "data/source.h"

/* What a thread that decodes has for itself. */
typedef struct gs_folder_tools gs_folder_tools;

gs_status gs_folder_tools_create(void **out); /* GS_E_MEMORY */
void gs_folder_tools_free(void *);            /* NULL is allowed */

/* Room for one sample, which is valid until the next call; NULL: no memory. */
unsigned char *gs_folder_room(gs_folder_tools *, size_t bytes);

/* File `i` of the list becomes out[3][size][size], as it is shown to sample `sample`: with resized_crop a part of it,
 * else, or where `wanted` is NULL, its middle. GS_E_FILE, GS_E_FORMAT: the message has its path, its number and what is
 * wrong with it. GS_E_MEMORY: also where too many files are open. */
gs_status gs_folder_decode(gs_folder_tools *, const gs_folder_list *, size_t i, int size,
                           const gs_wanted *wanted, size_t sample, unsigned char *out);
