/* Whole sets of pictures in colour: made, kept in the cache, written as files. */
#include "data/colour.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "core/nearest.h"
#include "core/text.h"
#include "io/cache.h"
#include "io/file.h"

enum { PATH_SIZE = 4096, RECORD = 1 + GS_COLOUR_PICTURE, BATCHES = 5, MOST = BATCHES * 10000, CLASSES = 10 };

const char *const gs_colour_names[] = {"colour-fashion", "colour-fashion-small", NULL};
static const char *const made_of[] = {"fashion-mnist", "fashion-mnist-small"};

/* Of Fashion-MNIST. */
static const char classes[] =
    "T-shirt/top\nTrouser\nPullover\nDress\nCoat\nSandal\nShirt\nSneaker\nBag\nAnkle boot\n";

static const char *const split_names[] = {[GS_TRAIN] = "train", [GS_TEST] = "test"};

static int number_of(const char *name) {
    for (int i = 0; gs_colour_names[i]; i++)
        if (strcmp(gs_colour_names[i], name) == 0) return i;
    return -1;
}

bool gs_colour_is_name(const char *name) {
    return number_of(name) >= 0;
}

/* ---- make ---- */

static gs_status check_grey(const gs_dataset *grey) {
    if (grey->shape.c != 1 || grey->shape.h != 28 || grey->shape.w != 28)
        return gs_fail(GS_E_FORMAT, "%s: the images are %s; wanted (1,28,28)", grey->name,
                       gs_shape_tuple(grey->shape).text);
    if (grey->classes > CLASSES)
        return gs_fail(GS_E_FORMAT, "%s: the largest label is %d; wanted at most %d", grey->name,
                       grey->classes - 1, CLASSES - 1);
    return GS_OK;
}

static void describe(gs_dataset *d, size_t count) {
    d->count = count;
    d->shape = (gs_shape){3, 32, 32, 0};
    d->classes = 0;
    for (size_t i = 0; i < count; i++)
        if (d->labels[i] >= d->classes) d->classes = d->labels[i] + 1;
}

/* Images and, behind them, labels are one block: so they lie in the cache. */
static gs_status colour(const gs_dataset *grey, gs_split split, uint64_t seed, gs_dataset *d) {
    GS_TRY(check_grey(grey));
    const size_t count = grey->count < MOST ? grey->count : MOST;
    d->images = malloc(count * RECORD);
    d->labels = malloc(count);
    if (!d->images || !d->labels)
        return gs_fail(GS_E_MEMORY, "%s: no memory for %zu pictures in colour", grey->name, count);
    for (size_t i = 0; i < count; i++)
        gs_colour_picture(seed, split, (uint32_t)i, grey->images + i * GS_COLOUR_GREY,
                          d->images + i * GS_COLOUR_PICTURE);
    memcpy(d->images + count * GS_COLOUR_PICTURE, grey->labels, count);
    memcpy(d->labels, grey->labels, count);
    describe(d, count);
    return GS_OK;
}

gs_status gs_colour_make(const char *name, gs_split split, uint64_t seed, gs_dataset *d) {
    const int number = number_of(name);
    if (number < 0) return gs_no_such("data set", name, gs_colour_names);
    gs_dataset *grey;
    gs_status status = gs_dataset_load(made_of[number], split, &grey);
    if (status != GS_OK)
        return number == 1 ? gs_context(status, "%s is made of %s", name, made_of[number])
                           : gs_context(status, "%s is made of %s (%s, of what comes with gradsum)", name,
                                        made_of[number], gs_colour_names[1]);
    status = colour(grey, split, seed, d);
    gs_dataset_free(grey);
    return status;
}

/* ---- the cache ---- */

/* The 1 is to change with what gs_colour_picture draws. */
static void entry_name(const char *name, gs_split split, char entry[64]) {
    snprintf(entry, 64, "%s-1-%s", name, split_names[split]);
}

/* Its sum is right, so it is what was written; only another program could have written another size. */
static bool take(void *data, size_t bytes, gs_dataset *d) {
    const size_t count = bytes / RECORD;
    d->labels = count > 0 && bytes % RECORD == 0 ? malloc(count) : NULL;
    if (!d->labels) return false;
    d->images = data;
    memcpy(d->labels, d->images + count * GS_COLOUR_PICTURE, count);
    describe(d, count);
    return true;
}

gs_status gs_colour_load(const char *name, gs_split split, gs_dataset *d) {
    char entry[64];
    void *data;
    size_t bytes;
    entry_name(name, split, entry);
    const gs_cache_state state = gs_cache_read(entry, &data, &bytes);
    if (state == GS_CACHE_FOUND && take(data, bytes, d)) return GS_OK;
    free(data);
    if (state != GS_CACHE_MISSING)
        fprintf(stderr, "gradsum: %s in the cache is damaged, and is made again\n", entry);
    GS_TRY(gs_colour_make(name, split, GS_COLOUR_SEED, d));
    gs_cache_write(entry, d->images, d->count * RECORD);
    return GS_OK;
}

/* ---- files ---- */

static const char *const file_names[] = {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
                                         "data_batch_4.bin", "data_batch_5.bin", "test_batch.bin",
                                         "batches.meta.txt", "LICENSE"};
enum { TEST_FILE = BATCHES, NAMES_FILE, LICENSE_FILE, FILES };

static gs_status begin(const char *folder, int file, gs_file_writer *w) {
    char path[PATH_SIZE];
    if (snprintf(path, sizeof path, "%s/%s", folder, file_names[file]) >= PATH_SIZE)
        return gs_fail(GS_E_FILE, "%s: the path is too long", folder);
    return gs_file_writer_open(path, w);
}

static gs_status write_records(const char *folder, int file, const gs_dataset *d, size_t first,
                               size_t count) {
    gs_file_writer w;
    GS_TRY(begin(folder, file, &w));
    for (size_t i = first; i < first + count && !ferror(w.file); i++) {
        fputc(d->labels[i], w.file);
        fwrite(d->images + i * GS_COLOUR_PICTURE, 1, GS_COLOUR_PICTURE, w.file);
    }
    return gs_file_writer_commit(&w); /* an error of before is one here */
}

static gs_status write_text(const char *folder, int file, const char *text, size_t bytes) {
    gs_file_writer w;
    GS_TRY(begin(folder, file, &w));
    fwrite(text, 1, bytes, w.file);
    return gs_file_writer_commit(&w);
}

static gs_status write_split(const char *folder, const char *name, gs_split split, uint64_t seed) {
    gs_dataset d = {0};
    gs_status status = gs_colour_make(name, split, seed, &d);
    const int files = split == GS_TEST ? 1 : BATCHES;
    for (int i = 0; i < files && status == GS_OK; i++) {
        const size_t first = d.count * (size_t)i / (size_t)files,
                     end = d.count * (size_t)(i + 1) / (size_t)files;
        status = write_records(folder, split == GS_TEST ? TEST_FILE : i, &d, first, end - first);
    }
    free(d.images);
    free(d.labels);
    return status;
}

static gs_status write_license(const char *folder) {
    char path[PATH_SIZE], *text;
    size_t bytes;
    GS_TRY(gs_file_of_gradsum("datasets/fashion-mnist-small/LICENSE", path, sizeof path));
    GS_TRY(gs_file_read(path, 1 << 20, &text, &bytes));
    const gs_status status = write_text(folder, LICENSE_FILE, text, bytes);
    free(text);
    return status;
}

/* A new folder, or an empty one. */
static gs_status make_folder(const char *folder, bool *made) {
    struct stat s;
    *made = stat(folder, &s) != 0;
    if (!*made && !S_ISDIR(s.st_mode))
        return gs_fail(GS_E_FILE, "cannot write into %s: it is not a folder; wanted a new or an empty one",
                       folder);
    if (!gs_file_make_folders(folder))
        return gs_fail(GS_E_FILE, "cannot make the folder %s: %s", folder, strerror(errno));
    DIR *d = opendir(folder);
    if (!d) return gs_fail(GS_E_FILE, "cannot look into the folder %s: %s", folder, strerror(errno));
    gs_status status = GS_OK;
    for (const struct dirent *e = readdir(d); e && status == GS_OK; e = readdir(d))
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            status = gs_fail(GS_E_FILE, "the folder %s is not empty: it has %s; wanted a new or an empty one",
                             folder, gs_printable(e->d_name));
    closedir(d);
    return status;
}

static void remove_files(const char *folder, bool made) {
    char path[PATH_SIZE];
    for (int i = 0; i < FILES; i++)
        if (snprintf(path, sizeof path, "%s/%s", folder, file_names[i]) < PATH_SIZE) unlink(path);
    if (made) rmdir(folder);
}

gs_status gs_colour_write(const char *name, uint64_t seed, const char *folder) {
    bool made;
    if (!gs_colour_is_name(name)) return gs_no_such("data set", name, gs_colour_names);
    GS_TRY(make_folder(folder, &made));
    gs_status status = write_split(folder, name, GS_TRAIN, seed);
    if (status == GS_OK) status = write_split(folder, name, GS_TEST, seed);
    if (status == GS_OK) status = write_text(folder, NAMES_FILE, classes, sizeof classes - 1);
    if (status == GS_OK) status = write_license(folder);
    if (status != GS_OK) remove_files(folder, made);
    return status;
}
