#include "data/cifar.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "io/file.h"

enum { PATH_SIZE = 4096, PIXELS = 3 * 32 * 32, FILES = 6, MOST_FILES = 5, NAMES_MOST = 1 << 16 };

/* ---- the sets ---- */

typedef struct family {
    const char *name, *folder, *archive;
    int labels;           /* bytes before the pixels */
    int classes[2];       /* by gs_labels */
    const char *names[2]; /* files with their names, a line each */
    const char *file[FILES];
    int test; /* file[0 .. test - 1] are for training */
} family;

static const family families[] = {
    {"CIFAR-10",
     "cifar-10-batches-bin",
     "cifar-10-binary.tar.gz",
     1,
     {10, 0},
     {"batches.meta.txt", NULL},
     {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin",
      "test_batch.bin"},
     5},
    {"CIFAR-100",
     "cifar-100-binary",
     "cifar-100-binary.tar.gz",
     2,
     {100, 20},
     {"fine_label_names.txt", "coarse_label_names.txt"},
     {"train.bin", "test.bin"},
     1},
};

enum { FAMILIES = sizeof families / sizeof *families };

/* The files of a split. */
typedef struct content {
    const family *of;
    const char *const *file; /* the split's first */
    int files;
    unsigned char *data[MOST_FILES];
    size_t bytes[MOST_FILES];
    gs_labels labels;
    char *names; /* of the classes; NULL: there is no such file */
    size_t names_bytes;
} content;

/* ---- where ---- */

static bool is_there(const char *folder, const char *name) {
    char path[PATH_SIZE];
    return snprintf(path, sizeof path, "%s/%s", folder, name) < PATH_SIZE && access(path, F_OK) == 0;
}

static bool has_files(const char *folder, const family *f) {
    for (int i = 0; i <= f->test; i++)
        if (is_there(folder, f->file[i])) return true;
    return false;
}

/* Look in the folder, then in the folder that the archive unpacks to. */
static bool find(const char *where, char path[PATH_SIZE], const family **of) {
    if (snprintf(path, PATH_SIZE, "%s", where) >= PATH_SIZE) return false;
    for (*of = families; *of < families + FAMILIES; (*of)++)
        if (has_files(where, *of)) return true;
    for (*of = families; *of < families + FAMILIES; (*of)++)
        if (snprintf(path, PATH_SIZE, "%s/%s", where, (*of)->folder) < PATH_SIZE && has_files(path, *of))
            return true;
    return false;
}

bool gs_cifar_is_at(const char *where) {
    char path[PATH_SIZE];
    const family *of;
    return find(where, path, &of);
}

/* Names of the Python version: pickles of the same images, without a file name extension. */
gs_status gs_cifar_explain(const char *where) {
    static const struct {
        const char *folder, *archive, *file[2];
    } python[FAMILIES] = {{"cifar-10-batches-py", "cifar-10-python.tar.gz", {"data_batch_1", "test_batch"}},
                          {"cifar-100-python", "cifar-100-python.tar.gz", {"meta", "test"}}};
    for (int i = 0; i < FAMILIES; i++) {
        if (is_there(where, families[i].archive))
            return gs_fail(GS_E_FILE, "%s has %s as it is published; unpack it there: tar xf %s", where,
                           families[i].archive, families[i].archive);
        if (is_there(where, python[i].folder) || is_there(where, python[i].archive) ||
            (is_there(where, python[i].file[0]) && is_there(where, python[i].file[1])))
            return gs_fail(GS_E_FORMAT,
                           "%s has the Python version of %s; wanted the binary version, which is published "
                           "beside it: %s",
                           where, families[i].name, families[i].archive);
    }
    return GS_OK;
}

/* ---- read ---- */

static gs_status read_folder(const char *folder, content *c) {
    for (int i = 0; i < c->files; i++) {
        char path[PATH_SIZE + 32], *data;
        if (!is_there(folder, c->file[i]))
            return gs_fail(GS_E_FILE, "%s has no %s, one of the files of %s", folder, c->file[i],
                           c->of->name);
        snprintf(path, sizeof path, "%s/%s", folder, c->file[i]);
        GS_TRY(gs_file_read(path, INT32_MAX, &data, &c->bytes[i]));
        c->data[i] = (unsigned char *)data;
    }
    const char *names = c->of->names[c->labels];
    char path[PATH_SIZE + 32];
    snprintf(path, sizeof path, "%s/%s", folder, names ? names : "");
    if (names && is_there(folder, names)) GS_TRY(gs_file_read(path, NAMES_MOST, &c->names, &c->names_bytes));
    return GS_OK;
}

/* ---- from records to samples ---- */

/* CIFAR-100 stores the coarse label first. */
static gs_status copy_record(const char *path, const content *c, int file, size_t record, gs_labels labels,
                             gs_dataset *d) {
    const family *f = c->of;
    const unsigned char *from = c->data[file] + record * (size_t)(f->labels + PIXELS);
    for (int kind = 0; kind < f->labels; kind++) { /* by gs_labels: backwards in the file */
        const int found = from[f->labels - 1 - kind];
        if (found >= f->classes[kind])
            return gs_fail(GS_E_FORMAT, "%s: the %slabel of sample %zu in %s is %d; wanted 0 to %d", path,
                           f->labels == 1           ? ""
                           : kind == GS_LABELS_FINE ? "fine "
                                                    : "coarse ",
                           record, c->file[file], found, f->classes[kind] - 1);
    }
    const int label = from[f->labels - 1 - (int)labels];
    d->labels[d->count] = (unsigned char)label;
    if (label >= d->classes) d->classes = label + 1;
    memcpy(d->images + d->count++ * PIXELS, from + f->labels, PIXELS);
    return GS_OK;
}

/* Count samples. Each file must hold at least one record and only whole ones. */
static gs_status count_records(const char *path, const content *c, size_t *samples) {
    const size_t record = (size_t)c->of->labels + PIXELS;
    *samples = 0;
    for (int i = 0; i < c->files; i++) {
        const gs_foreign *foreign = gs_foreign_of(c->data[i], c->bytes[i]);
        const bool whole = c->bytes[i] > 0 && c->bytes[i] % record == 0;
        if (!whole && foreign) return gs_context(gs_foreign_fail(foreign, c->file[i], "samples"), "%s", path);
        if (!whole)
            return gs_fail(GS_E_FORMAT,
                           "%s: %s has %zu bytes; wanted a multiple of the %zu that a sample of %s has", path,
                           c->file[i], c->bytes[i], record, c->of->name);
        *samples += c->bytes[i] / record;
    }
    if (*samples * PIXELS <= INT32_MAX) return GS_OK;
    return gs_fail(GS_E_FORMAT, "%s: %zu samples; at most %d are allowed", path, *samples,
                   INT32_MAX / PIXELS);
}

static gs_status make_samples(const char *path, const content *c, gs_labels labels, gs_dataset *d) {
    size_t samples;
    if (labels == GS_LABELS_COARSE && c->of->classes[labels] == 0)
        return gs_fail(GS_E_USAGE,
                       "%s is %s, which has one label for each image: only CIFAR-100 has coarse labels", path,
                       c->of->name);
    GS_TRY(count_records(path, c, &samples));
    d->shape = (gs_shape){3, 32, 32, 0};
    GS_TRY(GS_NEW(d->images, samples * PIXELS, "%zu samples of %s", samples, path));
    GS_TRY(GS_NEW(d->labels, samples, "%zu samples of %s", samples, path));
    for (int i = 0; i < c->files; i++)
        for (size_t r = 0; r < c->bytes[i] / ((size_t)c->of->labels + PIXELS); r++)
            GS_TRY(copy_record(path, c, i, r, labels, d));
    snprintf(d->kind, sizeof d->kind, "%s's format%s", c->of->name,
             labels == GS_LABELS_COARSE ? ", coarse labels" : "");
    return GS_OK;
}

gs_status gs_cifar_load(const char *where, gs_split split, gs_labels labels, gs_dataset *d) {
    char path[PATH_SIZE];
    const family *of;
    if (!find(where, path, &of)) return gs_fail(GS_E_FILE, "%s has no files of CIFAR-10 or CIFAR-100", where);
    content c = {.of = of,
                 .file = split == GS_TEST ? &of->file[of->test] : of->file,
                 .files = split == GS_TEST ? 1 : of->test,
                 .labels = labels};
    gs_status status = read_folder(path, &c);
    if (status == GS_OK) status = make_samples(path, &c, labels, d);
    if (status == GS_OK && c.names)
        d->names = gs_class_names_of_lines(c.names, c.names_bytes, c.of->classes[labels]);
    for (int i = 0; i < MOST_FILES; i++) free(c.data[i]);
    free(c.names);
    return status;
}
