#include "tests/support/files.h"

#include <dirent.h>

const char *in_folder(const char *folder, const char *name) {
    return gs_test_format("%s/%s", folder, name);
}

void check_holds(const char *path, const char *text) {
    assert_string_equal(gs_test_text(path, NULL), text);
}

int entries(const char *folder) {
    int count = 0;
    DIR *d = opendir(folder);
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));)
        count += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    closedir(d);
    return count;
}

char *gs_test_text(const char *path, size_t *length) {
    char *text;
    size_t size;
    assert_ok(gs_file_read(path, SIZE_MAX - 1, &text, &size));
    if (length) *length = size;
    return gs_test_keep(text);
}

void check_same(const char *a, const char *b, const char *what) {
    size_t size_a, size_b;
    const char *in_a = gs_test_text(a, &size_a), *in_b = gs_test_text(b, &size_b);
    if (size_a != size_b || memcmp(in_a, in_b, size_a) != 0) fail_msg("%s: %s is not %s", what, a, b);
}

void write_raw(const char *path, const void *bytes, size_t count) {
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, count, f), count);
    assert_int_equal(fclose(f), 0);
}

void write_times(const char *path, const char *text, int times) {
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    for (int i = 0; i < times; i++) assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

void write_safetensors(const char *path, const char *header, const void *data, size_t bytes) {
    const uint64_t length = strlen(header);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(&length, sizeof length, 1, f), 1);
    assert_int_equal(fwrite(header, 1, length, f), length);
    assert_int_equal(fwrite(data, 1, bytes, f), bytes);
    assert_int_equal(fclose(f), 0);
}

static FILE *open_at(const char *path, const char *mode, long offset) {
    FILE *f = fopen(path, mode);
    assert_non_null(f);
    assert_int_equal(fseek(f, offset, offset < 0 ? SEEK_END : SEEK_SET), 0);
    return f;
}

int byte_at(const char *path, long offset) {
    FILE *f = open_at(path, "rb", offset);
    const int byte = fgetc(f);
    fclose(f);
    return byte;
}

void set_byte(const char *path, long offset, int byte) {
    FILE *f = open_at(path, "r+b", offset);
    fputc(byte, f);
    assert_int_equal(fclose(f), 0);
}

size_t read_raw(const char *path, unsigned char *bytes, size_t size) {
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    const size_t count = fread(bytes, 1, size, f);
    fclose(f);
    return count;
}

void write_text(const char *path, const char *text) {
    gs_file_writer w;
    assert_ok(gs_file_writer_open(path, &w));
    fputs(text, w.file);
    assert_ok(gs_file_writer_commit(&w));
    gs_file_writer_discard(&w); /* harmless after commit */
}

void write_idx(const char *folder, const char *split, int count, int side, int (*pixel)(int, int),
               int (*label)(int)) {
    const unsigned char n = (unsigned char)count, edge = (unsigned char)side,
                        images[] = {0, 0, 8, 3, 0, 0, 0, n, 0, 0, 0, edge, 0, 0, 0, edge},
                        labels[] = {0, 0, 8, 1, 0, 0, 0, n};
    for (int is_label = 0; is_label < 2; is_label++) {
        FILE *f = fopen(
            gs_test_format("%s/%s-%s-ubyte", folder, split, is_label ? "labels-idx1" : "images-idx3"), "wb");
        assert_non_null(f);
        fwrite(is_label ? labels : images, 1, is_label ? sizeof labels : sizeof images, f);
        for (int i = 0; i < count; i++)
            for (int at = 0; at < (is_label ? 1 : side * side); at++)
                fputc(is_label ? label(i) : pixel(i, at), f);
        assert_int_equal(fclose(f), 0);
    }
}
