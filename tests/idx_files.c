#include "tests/idx_files.h"

#include <sys/stat.h>
#include <zlib.h>

#include "tests/files.h"

const unsigned char images3[] = {0, 0, 8, 3, 0, 0, 0,   3,   0,  0,  0,  2,  0,  0,
                                 0, 2, 1, 2, 3, 4, 255, 254, 10, 11, 20, 21, 22, 23};
const unsigned char labels3[] = {0, 0, 8, 1, 0, 0, 0, 3, 7, 0, 2};

const char *good_folder(void) {
    const char *folder = gs_test_folder();
    write_raw(in_folder(folder, TRAIN_IMAGES), images3, sizeof images3);
    write_raw(in_folder(folder, TRAIN_LABELS), labels3, sizeof labels3);
    return folder;
}

size_t write_gzip(const char *folder, const char *name, const void *bytes, size_t count) {
    gzFile f = gzopen(in_folder(folder, name), "wb9");
    assert_non_null(f);
    assert_int_equal(gzwrite(f, bytes, (unsigned)count), count);
    assert_int_equal(gzclose(f), Z_OK);
    struct stat s;
    assert_int_equal(stat(in_folder(folder, name), &s), 0);
    return (size_t)s.st_size;
}
