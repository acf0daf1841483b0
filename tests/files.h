/* Files and folders of the tests. */
#pragma once

#include "tests/test.h"

/* "folder/name" */
const char *in_folder(const char *folder, const char *name);

/* How many things lie in a folder. */
int entries(const char *folder);

/* The file holds exactly this text. */
void check_holds(const char *path, const char *text);

/* A whole file, with a 0 after it; kept. length may be NULL. */
char *gs_test_text(const char *path, size_t *length);

void write_raw(const char *path, const void *bytes, size_t count);

/* The first `size` bytes of a file; returns how many there are. */
size_t read_raw(const char *path, unsigned char *bytes, size_t size);

/* As the library writes a file: whole or not at all. */
void write_text(const char *path, const char *text);
