#include "tests/support/training.h"
#include "tests/support/some_text.h"

#include "core/text.h"
#include "tests/support/files.h"

void write_file(const char *path, const void *data, size_t bytes) {
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, bytes, f), bytes);
    assert_int_equal(fclose(f), 0);
}

size_t make_text(char *text) {
    static const uint32_t others[] = {' ', 0xe9, '\n', 0x20ac, 0x1d11e};
    size_t bytes = 0;
    for (int i = 0; i < LENGTH; i++)
        bytes += (size_t)gs_utf8_write(i % 5 ? (uint32_t)(97 + (i * i + i / 7) % 23) : others[i / 5 % 5],
                                       text + bytes);
    assert_int_equal(bytes, BYTES);
    return bytes;
}

const char *text_file(void) {
    static char where[600], text[4 * LENGTH + 1];
    const size_t bytes = make_text(text);
    snprintf(where, sizeof where, "text:%s", in_folder(gs_test_folder(), "some.txt"));
    write_file(where + 5, text, bytes);
    return where;
}

gs_dataset *load_text(const char *where, gs_split split, gs_text_options options) {
    gs_dataset *set;
    return gs_test_set(gs_dataset_load_with(where, split, GS_LABELS_FINE, &options, NULL, &set), &set);
}

const gs_text_options SMALL = {.tokens = GS_TOKENS_CHARS, .context = CONTEXT};

gs_settings text_settings(const char *where, const char *devices) {
    gs_settings s = gs_test_options("--model 'embedding 28 28' --data %s --devices %s --lr 0.5 --threads 1",
                                    where, devices);
    s.context = CONTEXT;
    s.batch = BATCH;
    s.epochs = EPOCHS;
    return s;
}

const char TRANSFORMER[] =
    "embedding 28 8, positions, residual (layer_norm, linear 24, attention 2 causal, linear 8), "
    "residual (layer_norm, linear 16, gelu, linear 8), layer_norm, linear 28";
