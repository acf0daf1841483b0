/* Files and folders of the tests. */
#pragma once

#include "tests/support/test.h"

/* "folder/name" */
const char *in_folder(const char *folder, const char *name);

/* How many things lie in a folder. */
int entries(const char *folder);

/* The file holds exactly this text. */
void check_holds(const char *path, const char *text);

/* Both files hold the same bytes; `what` is said if not. */
void check_same(const char *a, const char *b, const char *what);

/* A whole file, with a 0 after it; kept. length may be NULL. */
char *gs_test_text(const char *path, size_t *length);

void write_raw(const char *path, const void *bytes, size_t count);

/* The text, so many times. */
void write_times(const char *path, const char *text, int times);

/* A file of weights: the length of the header, the header, the numbers. */
void write_safetensors(const char *path, const char *header, const void *data, size_t bytes);

/* Of a file that is there: the byte at this offset, from the end where it is negative, is read; and made another. */
int byte_at(const char *path, long offset);
void set_byte(const char *path, long offset, int byte);

/* Images and labels in MNIST's format: `split` is train or t10k. At most 255 samples of side x side bytes. */
void write_idx(const char *folder, const char *split, int count, int side, int (*pixel)(int sample, int at),
               int (*label)(int sample));

/* The first `size` bytes of a file; returns how many there are. */
size_t read_raw(const char *path, unsigned char *bytes, size_t size);

/* As the library writes a file: whole or not at all. */
void write_text(const char *path, const char *text);
