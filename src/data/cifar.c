#include "data/cifar.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "io/file.h"

enum { PATH_SIZE = 4096, PIXELS = 3 * 32 * 32, FILES = 6, NAMES_MOST = 1 << 16 };

/* ---- the sets ---- */

typedef struct family {
    const char *name, *folder, *archive;
    int labels;           /* bytes before the pixels */
    int classes[2];       /* indexed by gs_labels */
    const char *names[2]; /* files with the class names, one per line */
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

/* ---- where ---- */

/* path = FOLDER/NAME. False: there is no such file. */
static bool find_file(const char *folder, const char *name, char path[PATH_SIZE]) {
    return snprintf(path, PATH_SIZE, "%s/%s", folder, name) < PATH_SIZE && access(path, F_OK) == 0;
}

static bool is_there(const char *folder, const char *name) {
    char path[PATH_SIZE];
    return find_file(folder, name, path);
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

/* The Python version holds the same images as pickles, whose names have no extension. */
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

/* ---- from records to samples ---- */

/* A file whose samples are appended to `to`. */
typedef struct source {
    const char *folder, *file;
    const family *of;
    gs_labels labels;
    gs_dataset *to;
} source;

/* CIFAR-100 stores the coarse label first. */
static gs_status add_record(const source *s, const unsigned char *record, size_t number) {
    const family *f = s->of;
    gs_dataset *d = s->to;
    for (int kind = 0; kind < f->labels; kind++) { /* by gs_labels, in the reverse of the file's order */
        const int found = record[f->labels - 1 - kind];
        if (found >= f->classes[kind])
            return gs_fail(GS_E_FORMAT, "%s: the %slabel of sample %zu in %s is %d; wanted 0 to %d",
                           s->folder,
                           f->labels == 1           ? ""
                           : kind == GS_LABELS_FINE ? "fine "
                                                    : "coarse ",
                           number, s->file, found, f->classes[kind] - 1);
    }
    const unsigned char label = record[f->labels - 1 - (int)s->labels];
    if (label >= d->classes) d->classes = label + 1;
    d->labels[d->count] = label;
    memcpy(d->images + d->count++ * PIXELS, record + f->labels, PIXELS);
    return GS_OK;
}

static gs_status make_room(const char *folder, size_t samples, gs_dataset *d) {
    if (samples > INT32_MAX / PIXELS)
        return gs_fail(GS_E_FORMAT, "%s: %zu samples; at most %d are allowed", folder, samples,
                       INT32_MAX / PIXELS);
    unsigned char *images = realloc(d->images, samples * PIXELS), *labels = realloc(d->labels, samples);
    if (images) d->images = images;
    if (labels) d->labels = labels;
    return images && labels ? GS_OK
                            : gs_fail(GS_E_MEMORY, "no memory for %zu samples of %s", samples, folder);
}

/* A file must hold at least one record, and only whole records. */
static gs_status add_records(const source *s, const unsigned char *data, size_t bytes) {
    const size_t record = (size_t)s->of->labels + PIXELS;
    const gs_foreign *foreign = gs_foreign_of(data, bytes);
    const bool whole = bytes > 0 && bytes % record == 0;
    if (!whole && foreign) return gs_context(gs_foreign_fail(foreign, s->file, "samples"), "%s", s->folder);
    if (!whole)
        return gs_fail(GS_E_FORMAT,
                       "%s: %s has %zu bytes; wanted a multiple of the %zu that a sample of %s has",
                       s->folder, s->file, bytes, record, s->of->name);
    GS_TRY(make_room(s->folder, s->to->count + bytes / record, s->to));
    for (size_t r = 0; r < bytes / record; r++) GS_TRY(add_record(s, data + r * record, r));
    return GS_OK;
}

static gs_status add_file(const source *s) {
    char path[PATH_SIZE], *data;
    size_t bytes;
    if (!find_file(s->folder, s->file, path))
        return gs_fail(GS_E_FILE, "%s has no %s, one of the files of %s", s->folder, s->file, s->of->name);
    GS_TRY(gs_file_read(path, INT32_MAX, &data, &bytes));
    const gs_status status = add_records(s, (const unsigned char *)data, bytes);
    free(data);
    return status;
}

/* The file with the class names may be missing. */
static gs_status name_classes(const source *s) {
    char path[PATH_SIZE], *names;
    size_t bytes;
    const char *file = s->of->names[s->labels];
    if (!file || !find_file(s->folder, file, path)) return GS_OK;
    GS_TRY(gs_file_read(path, NAMES_MOST, &names, &bytes));
    s->to->names = gs_class_names_of_lines(names, bytes, s->of->classes[s->labels]);
    free(names);
    return GS_OK;
}

gs_status gs_cifar_load(const char *where, gs_split split, gs_labels labels, gs_dataset *d) {
    char folder[PATH_SIZE];
    const family *f;
    if (!find(where, folder, &f))
        return gs_fail(GS_E_FILE, "%s has no files of CIFAR-10 or CIFAR-100", where);
    if (f->classes[labels] == 0)
        return gs_fail(GS_E_USAGE,
                       "%s is %s, which has one label for each image: only CIFAR-100 has coarse labels",
                       folder, f->name);
    source s = {.folder = folder, .of = f, .labels = labels, .to = d};
    const bool test = split == GS_TEST;
    for (int i = test ? f->test : 0; i < f->test + test; i++) {
        s.file = f->file[i];
        GS_TRY(add_file(&s));
    }
    d->shape = (gs_shape){3, 32, 32, 0};
    snprintf(d->kind, sizeof d->kind, "%s's format%s", f->name,
             labels == GS_LABELS_COARSE ? ", coarse labels" : "");
    return name_classes(&s);
}
