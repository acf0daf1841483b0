/* A small text for tests, with characters of one to four bytes. */
#pragma once

#include "tests/support/test.h"

/* In Python: "".join(chr(97 + (i * i + i // 7) % 23) if i % 5 else " é\n€𝄞"[i // 5 % 5] for i in range(700)) */
enum { LENGTH = 700, BYTES = 868, KINDS = 28, TEST = 70, CONTEXT = 10 };

/* The text, followed by a 0: needs 4 LENGTH + 1 bytes. Returns BYTES. */
size_t make_text(char *text);

/* "text:" and the path of a new file that holds this text. */
const char *text_file(void);

void write_file(const char *path, const void *data, size_t bytes);

gs_dataset *load_text(const char *where, gs_split, gs_text_options);

/* The text's characters, in windows of CONTEXT. */
extern const gs_text_options SMALL;

/* For training a model that predicts the next token only from the last one, with a table row per token. */
enum { BATCH = 7, EPOCHS = 3 };
gs_settings text_settings(const char *where, const char *devices);

/* A model with attention and layer_norm, which sum over many tokens. */
extern const char TRANSFORMER[];
