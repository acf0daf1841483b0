/* Gzipped IDX files: the stream is damaged at every place, or something lies behind it. */
#include "tests/files.h"
#include "tests/idx_files.h"

/* A gzip file that ends early or has one wrong byte is never taken for data: every place is tried. */
TEST(damaged_gzip) {
    const char *folder = gs_test_folder(), *name = "train-images-idx3-ubyte.gz";
    unsigned char idx[2000] = {0, 0, 8, 3, 0, 0, 0, 31, 0, 0, 0, 8, 0, 0, 0, 8}, gz[4000];
    for (size_t i = 16; i < sizeof idx; i++) idx[i] = (unsigned char)(i * i / 7);
    unsigned char labels[8 + 31] = {0, 0, 8, 1, 0, 0, 0, 31};
    write_raw(in_folder(folder, TRAIN_LABELS), labels, sizeof labels);
    size_t size = write_gzip(folder, name, idx, sizeof idx);
    assert_int_equal(read_raw(in_folder(folder, name), gz, sizeof gz), size);

    gs_dataset *d;
    for (size_t cut = 0; cut < size; cut++) {
        write_raw(in_folder(folder, name), gz, cut);
        gs_status st = gs_dataset_load(folder, GS_TRAIN, &d);
        if (st != GS_E_FORMAT) fail_msg("cut at %zu of %zu: %s", cut, size, gs_message());
        if (cut >= 2)
            assert_non_null(
                strstr(gs_message(),
                       "train-images-idx3-ubyte.gz: damaged gzip stream: unexpected end of file after "));
        if (cut == size - 8) /* all of the data, but not its checksum */
            assert_non_null(strstr(gs_message(), "after 2000 bytes; wanted 2000"));
    }
    for (size_t at = 0; at < size; at++) {
        gz[at] ^= 0x10;
        write_raw(in_folder(folder, name), gz, size);
        gz[at] ^= 0x10;
        gs_status st = gs_dataset_load(folder, GS_TRAIN, &d);
        if (st == GS_OK) { /* a byte that means nothing, such as the date in the header */
            assert_memory_equal(d->images, idx + 16, sizeof idx - 16);
            gs_dataset_free(d);
        } else if (st != GS_E_FORMAT)
            fail_msg("wrong byte at %zu: %s", at, gs_message());
    }
    gz[size - 6] ^= 1; /* in the checksum */
    write_raw(in_folder(folder, name), gz, size);
    assert_fails(GS_E_FORMAT, "damaged gzip stream: incorrect data check",
                 gs_dataset_load(folder, GS_TRAIN, &d));
}

/* Behind a stream there may be another one, which goes on with the data, or zeros that fill a block; nothing else. */
TEST(behind_a_gzip_stream) {
    const char *folder = gs_test_folder(), *name = "train-images-idx3-ubyte.gz";
    write_raw(in_folder(folder, TRAIN_LABELS), labels3, sizeof labels3);
    unsigned char gz[400] = {0};
    size_t size = write_gzip(folder, name, images3, sizeof images3);
    assert_int_equal(read_raw(in_folder(folder, name), gz, sizeof gz), size);
    memset(gz + size, 0, sizeof gz - size);
    gs_dataset *d;
    write_raw(in_folder(folder, name), gz, size + 200);
    assert_ok(gs_dataset_load(folder, GS_TRAIN, &d));
    gs_dataset_free(d);

    static const char *const rubbish[] = {"x", "\x1fx", "\x1f", "rubbish", "\0rubbish"};
    static const size_t length[] = {1, 2, 1, 7, 8};
    for (size_t i = 0; i < sizeof length / sizeof *length; i++) {
        memcpy(gz + size, rubbish[i], length[i]);
        write_raw(in_folder(folder, name), gz, size + length[i]);
        assert_fails(GS_E_FORMAT, name, gs_dataset_load(folder, GS_TRAIN, &d));
    }
    assert_fails(GS_E_FORMAT, "has other bytes after the end of its gzip stream, from byte",
                 gs_dataset_load(folder, GS_TRAIN, &d));

    unsigned char first[400], second[400];
    size_t n = write_gzip(folder, name, images3, 18);
    assert_int_equal(read_raw(in_folder(folder, name), first, sizeof first), n);
    size_t m = write_gzip(folder, name, images3 + 18, sizeof images3 - 18);
    assert_int_equal(read_raw(in_folder(folder, name), second, sizeof second), m);
    memcpy(first + n, second, m);
    write_raw(in_folder(folder, name), first, n + m);
    assert_ok(gs_dataset_load(folder, GS_TRAIN, &d));
    assert_memory_equal(d->images, images3 + 16, sizeof images3 - 16);
    gs_dataset_free(d);
}
