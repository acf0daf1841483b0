/* Files and folders of the tests. */
#pragma once

#include "tests/support/test.h"

/* "folder/name" */
const char *in_folder(const char *folder, const char *name);

/* The number of entries in a folder. */
int entries(const char *folder);

/* Checks that the file holds exactly this text. */
void check_holds(const char *path, const char *text);

/* Checks that both files hold the same bytes; a failure names `what`. */
void check_same(const char *a, const char *b, const char *what);

/* Reads a whole file and appends a 0. The result is kept. length may be NULL. */
char *gs_test_text(const char *path, size_t *length);

void write_raw(const char *path, const void *bytes, size_t count);

/* Writes the text this many times. */
void write_times(const char *path, const char *text, int times);

/* Writes a weight file: the header's length, the header, the data. */
void write_safetensors(const char *path, const char *header, const void *data, size_t bytes);

/* Read or overwrite the byte at this offset of an existing file. A negative offset counts from the end. */
int byte_at(const char *path, long offset);
void set_byte(const char *path, long offset, int byte);

/* Writes images and labels in MNIST's format: `split` is train or t10k. At most 255 samples of side x side bytes. */
void write_idx(const char *folder, const char *split, int count, int side, int (*pixel)(int sample, int at),
               int (*label)(int sample));

/* Reads the first `size` bytes of a file; returns how many it read. */
size_t read_raw(const char *path, unsigned char *bytes, size_t size);

/* Writes a file as the library does, completely or not at all. */
void write_text(const char *path, const char *text);
