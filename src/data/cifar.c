#include "data/cifar.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <inttypes.h>
#include "io/file.h"
#include "core/text.h"
#include "io/unzip.h"

enum { PATH_SIZE = 4096, PIXELS = 3 * 32 * 32, FILES = 6, MOST_FILES = 5, NAMES_MOST = 1 << 16 };

/* ---- archives ---- */

/* The files in a tar archive, one after the other, gzipped or not.
 *
 * Format: POSIX.1-2001 (ustar and pax) and GNU tar. Blocks of 512 bytes: for each entry a header, then its bytes,
 * filled up with zeros; two blocks of zeros end the archive. A header holds
 *
 *     offset 0: name (100)   124: size, octal (12)   148: sum of all bytes, octal (8), itself counted as spaces
 *     offset 156: kind, '0' or 0 a file   257: "ustar"   345: what comes before the name and a slash (155)
 *
 * Entries of other kinds (folders, links, long names, pax records) are passed over. Nothing is ever written to a disk,
 * so no name can do harm.
 */
enum { BLOCK = 512, NAME_AT = 0, SIZE_AT = 124, SUM_AT = 148, KIND_AT = 156, NAME = 100, SUM = 8 };

static const uint64_t most_in_all = (uint64_t)4
                                    << 30; /* a small archive of zeros would keep us busy for hours */

typedef struct tar {
    const char *path;
    gs_unzip *file;
    uint64_t total; /* bytes of all entries so far */
    uint64_t rest;  /* bytes up to the next header */
    size_t bytes;   /* of the file that was found */
    bool whole;     /* nothing of it was read */
    char name[NAME + 1];
} tar;

static void tar_close(tar *t) {
    if (!t) return;
    gs_unzip_close(t->file);
    free(t);
}

static gs_status tar_open(const char *path, tar **out) {
    *out = NULL;
    tar *t = calloc(1, sizeof *t);
    if (!t) return gs_fail(GS_E_MEMORY, "%s: no memory to read it", path);
    t->path = path;
    gs_status status = gs_unzip_open(path, &t->file);
    if (status == GS_OK)
        *out = t;
    else
        tar_close(t);
    return status;
}

static gs_status pass_over(tar *t) {
    char bytes[16 * BLOCK];
    while (t->rest > 0) {
        size_t now = t->rest < sizeof bytes ? (size_t)t->rest : sizeof bytes;
        GS_TRY(gs_unzip_read(t->file, bytes, now, "an entry"));
        t->rest -= now;
    }
    return GS_OK;
}

/* Up to the end, so that the gzip stream's checksum is known to be right. */
static gs_status read_end(tar *t) {
    enum { FILL = 1 << 20 }; /* bytes of zeros that may fill up the last record */
    bool more = true;
    for (int i = 0; more && i <= FILL; i++) GS_TRY(gs_unzip_has_more(t->file, &more));
    return more ? gs_fail(GS_E_FORMAT, "%s has more than %d bytes behind the end of its archive", t->path,
                          FILL)
                : GS_OK;
}

/* An octal number, as long as spaces or zeros do not end it. */
static bool octal(const unsigned char *field, size_t length, uint64_t *out) {
    size_t i = 0;
    *out = 0;
    while (i < length && field[i] == ' ') i++;
    const size_t first = i;
    for (; i < length && field[i] >= '0' && field[i] <= '7'; i++)
        *out = *out * 8 + (uint64_t)(field[i] - '0');
    return i > first && (i == length || field[i] == ' ' || field[i] == '\0');
}

static bool sum_is_right(const unsigned char header[BLOCK]) {
    uint64_t stated, sum = 0;
    for (int i = 0; i < BLOCK; i++) sum += i >= SUM_AT && i < SUM_AT + SUM ? ' ' : header[i];
    return octal(header + SUM_AT, SUM, &stated) && stated == sum;
}

static bool is_zero(const unsigned char header[BLOCK]) {
    for (int i = 0; i < BLOCK; i++)
        if (header[i]) return false;
    return true;
}

static gs_status read_header(tar *t, const unsigned char header[BLOCK], bool *is_file) {
    uint64_t bytes;
    if (!sum_is_right(header))
        return gs_fail(GS_E_FORMAT, "%s: a block is no header of a tar archive: its checksum is wrong",
                       t->path);
    memcpy(t->name, header + NAME_AT, NAME);
    if (!octal(header + SIZE_AT, 12, &bytes))
        return gs_fail(GS_E_FORMAT, "%s: %s has no size that can be read", t->path, gs_printable(t->name));
    if (bytes > INT32_MAX)
        return gs_fail(GS_E_FORMAT, "%s: %s has %" PRIu64 " bytes; at most %d are allowed", t->path,
                       gs_printable(t->name), bytes, INT32_MAX);
    t->total += bytes;
    if (t->total > most_in_all)
        return gs_fail(GS_E_FORMAT, "%s: its files have more than %" PRIu64 " bytes together", t->path,
                       most_in_all);
    t->bytes = (size_t)bytes;
    t->rest = (bytes + BLOCK - 1) / BLOCK * BLOCK;
    t->whole = true;
    *is_file = header[KIND_AT] == '0' || header[KIND_AT] == '\0';
    return GS_OK;
}

static gs_status tar_next(tar *t, const char **name, size_t *bytes) {
    unsigned char header[BLOCK];
    bool is_file = false;
    *name = NULL;
    *bytes = 0;
    while (!is_file) {
        GS_TRY(pass_over(t));
        t->total += BLOCK; /* entries without bytes are no way around the limit either */
        GS_TRY(gs_unzip_read(t->file, header, BLOCK, "a header, or the end of the archive"));
        if (is_zero(header)) return read_end(t);
        GS_TRY(read_header(t, header, &is_file));
    }
    const char *slash = strrchr(t->name, '/');
    *name = slash ? slash + 1 : t->name;
    *bytes = t->bytes;
    return GS_OK;
}

static gs_status tar_read(tar *t, unsigned char **data) {
    *data = NULL;
    if (!t->whole) gs_bug("tar_read: %s was read already", t->name);
    GS_TRY(gs_unzip_check_room(t->file, t->bytes, gs_printable(t->name)));
    *data = malloc(t->bytes + 1);
    if (!*data) return gs_fail(GS_E_MEMORY, "%s: no memory for %s", t->path, gs_printable(t->name));
    gs_status status = gs_unzip_read(t->file, *data, t->bytes, gs_printable(t->name));
    t->whole = false;
    t->rest -= t->bytes;
    if (status == GS_OK) return GS_OK;
    free(*data);
    *data = NULL;
    return status;
}

/* ---- the sets ---- */

/* One file, and its SHA-256 as loaders of the sets state it: other programs, since the authors give none. */
typedef struct cifar_file {
    const char *name, *sha256;
} cifar_file;

typedef struct family {
    const char *name, *folder, *archive;
    int labels;           /* bytes before the pixels */
    int classes[2];       /* by gs_labels, */
    const char *names[2]; /* and the files with their names, a line each */
    cifar_file file[FILES];
    int test; /* file[0 .. test - 1] are for training */
} family;

static const family families[] = {
    {"CIFAR-10",
     "cifar-10-batches-bin",
     "cifar-10-binary.tar.gz",
     1,
     {10, 0},
     {"batches.meta.txt", NULL},
     {{"data_batch_1.bin", "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5"},
      {"data_batch_2.bin", "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed"},
      {"data_batch_3.bin", "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67"},
      {"data_batch_4.bin", "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48"},
      {"data_batch_5.bin", "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add"},
      {"test_batch.bin", "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b"}},
     5},
    {"CIFAR-100",
     "cifar-100-binary",
     "cifar-100-binary.tar.gz",
     2,
     {100, 20},
     {"fine_label_names.txt", "coarse_label_names.txt"},
     {{"train.bin", "f31298fc616915fa142368359df1c4ca2ae984d6915ca468b998a5ec6aeebf29"},
      {"test.bin", "d8b1e6b7b3bee4020055f0699b111f60b1af1e262aeb93a0b659061746f8224a"}},
     1},
};

enum { FAMILIES = sizeof families / sizeof *families };

/* The files of a split, as they were read. */
typedef struct content {
    const family *of;
    const cifar_file *file; /* the split's first */
    int files;
    unsigned char *data[MOST_FILES];
    size_t bytes[MOST_FILES];
    gs_labels labels;
    char *names; /* of the classes; NULL: there is no such file */
    size_t names_bytes;
} content;

static void choose_files(const family *f, gs_split split, content *c) {
    c->of = f;
    c->file = split == GS_TEST ? &f->file[f->test] : f->file;
    c->files = split == GS_TEST ? 1 : f->test;
}

/* ---- where ---- */

static bool is_there(const char *folder, const char *name) {
    char path[PATH_SIZE];
    return snprintf(path, sizeof path, "%s/%s", folder, name) < PATH_SIZE && access(path, F_OK) == 0;
}

static bool has_files(const char *folder, const family *f) {
    for (int i = 0; i <= f->test; i++)
        if (is_there(folder, f->file[i].name)) return true;
    return false;
}

static bool is_archive(const char *where) {
    struct stat s;
    const char *slash = strrchr(where, '/');
    return stat(where, &s) == 0 && S_ISREG(s.st_mode) && strstr(slash ? slash : where, ".tar") != NULL;
}

/* Where the set lies; *of NULL: it is an archive, whose files will say what it is. */
static bool find(const char *where, char path[PATH_SIZE], const family **of) {
    *of = NULL;
    if (snprintf(path, PATH_SIZE, "%s", where) >= PATH_SIZE) return false;
    if (is_archive(where)) return true;
    for (*of = families; *of < families + FAMILIES; (*of)++)
        if (has_files(where, *of)) return true;
    for (*of = families; *of < families + FAMILIES; (*of)++)
        if (snprintf(path, PATH_SIZE, "%s/%s", where, (*of)->folder) < PATH_SIZE && has_files(path, *of))
            return true;
    *of = NULL;
    for (int i = 0; i < FAMILIES; i++)
        if (snprintf(path, PATH_SIZE, "%s/%s", where, families[i].archive) < PATH_SIZE && is_archive(path))
            return true;
    return false;
}

bool gs_cifar_is_at(const char *where) {
    char path[PATH_SIZE];
    const family *of;
    return find(where, path, &of);
}

/* Python's pickles of the same images have these names: not even the files of CIFAR-100 have an end of their own. */
static gs_status is_python(const char *where, const family *f) {
    return gs_fail(
        GS_E_FORMAT,
        "%s has the Python version of %s; wanted the binary version, which is published beside it: %s", where,
        f->name, f->archive);
}

gs_status gs_cifar_explain(const char *where) {
    static const struct {
        const char *folder, *archive, *file[2];
    } python[FAMILIES] = {{"cifar-10-batches-py", "cifar-10-python.tar.gz", {"data_batch_1", "test_batch"}},
                          {"cifar-100-python", "cifar-100-python.tar.gz", {"meta", "test"}}};
    for (int i = 0; i < FAMILIES; i++)
        if (is_there(where, python[i].folder) || is_there(where, python[i].archive) ||
            (is_there(where, python[i].file[0]) && is_there(where, python[i].file[1])))
            return is_python(where, &families[i]);
    return GS_OK;
}

/* ---- read ---- */

static gs_status read_folder(const char *folder, content *c) {
    for (int i = 0; i < c->files; i++) {
        char path[PATH_SIZE + 32], *data;
        if (!is_there(folder, c->file[i].name))
            return gs_fail(GS_E_FILE, "%s has no %s, one of the files of %s", folder, c->file[i].name,
                           c->of->name);
        snprintf(path, sizeof path, "%s/%s", folder, c->file[i].name);
        GS_TRY(gs_file_read(path, INT32_MAX, &data, &c->bytes[i]));
        c->data[i] = (unsigned char *)data;
    }
    const char *names = c->of->names[c->labels];
    char path[PATH_SIZE + 32];
    snprintf(path, sizeof path, "%s/%s", folder, names ? names : "");
    if (names && is_there(folder, names)) GS_TRY(gs_file_read(path, NAMES_MOST, &c->names, &c->names_bytes));
    return GS_OK;
}

/* Which set has a file of this name? */
static const family *family_of(const char *name) {
    for (int f = 0; f < FAMILIES; f++)
        for (int i = 0; i <= families[f].test; i++)
            if (strcmp(families[f].file[i].name, name) == 0) return &families[f];
    return NULL;
}

/* The names of either set: which one it is, need not be known yet. */
static bool has_names(const char *name, gs_labels labels) {
    for (int f = 0; f < FAMILIES; f++)
        if (families[f].names[labels] && strcmp(families[f].names[labels], name) == 0) return true;
    return false;
}

static gs_status take_names(tar *tar, size_t bytes, content *c) {
    unsigned char *names;
    if (c->names || bytes > NAMES_MOST) return GS_OK;
    GS_TRY(tar_read(tar, &names));
    c->names = (char *)names;
    c->names_bytes = bytes;
    return GS_OK;
}

/* A file of the archive: of the split, of the other one, or none of ours. */
static gs_status take(tar *tar, const char *path, const char *name, size_t bytes, gs_split split,
                      content *c) {
    const family *of = family_of(name);
    if (!of) return has_names(name, c->labels) ? take_names(tar, bytes, c) : GS_OK;
    if (!c->of) choose_files(of, split, c);
    if (c->of != of)
        return gs_fail(GS_E_FORMAT, "%s has files of %s and of %s; wanted one set", path, c->of->name,
                       of->name);
    for (int i = 0; i < c->files; i++) {
        if (strcmp(c->file[i].name, name) != 0) continue;
        if (c->data[i]) return gs_fail(GS_E_FORMAT, "%s has two files %s; wanted one", path, c->file[i].name);
        c->bytes[i] = bytes;
        return tar_read(tar, &c->data[i]);
    }
    return GS_OK;
}

static gs_status read_entries(tar *tar, const char *path, gs_split split, content *c) {
    const char *name;
    size_t bytes;
    do {
        GS_TRY(tar_next(tar, &name, &bytes));
        if (name && strcmp(name, "data_batch_1") == 0) return is_python(path, &families[0]);
        if (name && strcmp(name, "meta") == 0) return is_python(path, &families[1]);
        if (name) GS_TRY(take(tar, path, name, bytes, split, c));
    } while (name);
    if (!c->of)
        return gs_fail(GS_E_FORMAT, "%s has no file of CIFAR-10 or CIFAR-100, such as %s or %s", path,
                       families[0].file[0].name, families[1].file[0].name);
    for (int i = 0; i < c->files; i++)
        if (!c->data[i])
            return gs_fail(GS_E_FORMAT, "%s has no %s, one of the files of %s", path, c->file[i].name,
                           c->of->name);
    return GS_OK;
}

static gs_status read_archive(const char *path, gs_split split, content *c) {
    tar *tar;
    GS_TRY(tar_open(path, &tar));
    gs_status status = read_entries(tar, path, split, c);
    tar_close(tar);
    return gs_foreign_explain(status, path, "an archive of CIFAR-10 or CIFAR-100 (tar, gzipped or not)");
}

/* ---- from records to samples ---- */

static gs_status check_label(const char *path, const cifar_file *file, size_t record, const char *what,
                             int label, int classes) {
    if (label < classes) return GS_OK;
    return gs_fail(GS_E_FORMAT, "%s: the %slabel of sample %zu in %s is %d; wanted 0 to %d", path, what,
                   record, file->name, label, classes - 1);
}

/* CIFAR-100 has the coarse label first. */
static gs_status copy_record(const char *path, const content *c, int file, size_t record, gs_labels labels,
                             gs_dataset *d) {
    const family *f = c->of;
    const unsigned char *from = c->data[file] + record * (size_t)(f->labels + PIXELS);
    const bool two = f->labels == 2;
    const int fine = from[two ? 1 : 0];
    GS_TRY(check_label(path, &c->file[file], record, two ? "fine " : "", fine, f->classes[GS_LABELS_FINE]));
    if (two)
        GS_TRY(check_label(path, &c->file[file], record, "coarse ", from[0], f->classes[GS_LABELS_COARSE]));
    const int label = labels == GS_LABELS_COARSE ? from[0] : fine;
    d->labels[d->count] = (unsigned char)label;
    if (label >= d->classes) d->classes = label + 1;
    memcpy(d->images + d->count++ * PIXELS, from + f->labels, PIXELS);
    return GS_OK;
}

/* How many samples: each file has whole records, and at least one. */
static gs_status count_records(const char *path, const content *c, size_t *samples) {
    const size_t record = (size_t)c->of->labels + PIXELS;
    *samples = 0;
    for (int i = 0; i < c->files; i++) {
        const gs_foreign *foreign = gs_foreign_of(c->data[i], c->bytes[i]);
        const bool whole = c->bytes[i] > 0 && c->bytes[i] % record == 0;
        if (!whole && foreign)
            return gs_context(gs_foreign_fail(foreign, c->file[i].name, "samples"), "%s", path);
        if (!whole)
            return gs_fail(GS_E_FORMAT,
                           "%s: %s has %zu bytes; wanted a multiple of the %zu that a sample of %s has", path,
                           c->file[i].name, c->bytes[i], record, c->of->name);
        *samples += c->bytes[i] / record;
    }
    if (*samples * PIXELS <= INT32_MAX) return GS_OK;
    return gs_fail(GS_E_FORMAT, "%s: %zu samples; at most %d are allowed", path, *samples,
                   INT32_MAX / PIXELS);
}

static bool is_as_published(const content *c) {
    char hex[65];
    for (int i = 0; i < c->files; i++) {
        gs_sha256(c->data[i], c->bytes[i], hex);
        if (strcmp(hex, c->file[i].sha256) != 0) return false;
    }
    return true;
}

static gs_status make_samples(const char *path, const content *c, gs_labels labels, gs_dataset *d) {
    size_t samples;
    if (labels == GS_LABELS_COARSE && c->of->classes[labels] == 0)
        return gs_fail(GS_E_USAGE,
                       "%s is %s, which has one label for each image: only CIFAR-100 has coarse labels", path,
                       c->of->name);
    GS_TRY(count_records(path, c, &samples));
    d->shape = (gs_shape){3, 32, 32, 0};
    d->images = malloc(samples * PIXELS + 1);
    d->labels = malloc(samples + 1);
    if (!d->images || !d->labels) return gs_fail(GS_E_MEMORY, "%s: no memory for %zu samples", path, samples);
    for (int i = 0; i < c->files; i++)
        for (size_t r = 0; r < c->bytes[i] / ((size_t)c->of->labels + PIXELS); r++)
            GS_TRY(copy_record(path, c, i, r, labels, d));
    snprintf(d->kind, sizeof d->kind, "%s%s%s", c->of->name,
             is_as_published(c) ? ", as published" : "'s format, other images",
             labels == GS_LABELS_COARSE ? ", coarse labels" : "");
    return GS_OK;
}

gs_status gs_cifar_load(const char *where, gs_split split, gs_labels labels, gs_dataset *d) {
    char path[PATH_SIZE];
    const family *of;
    if (!find(where, path, &of)) return gs_fail(GS_E_FILE, "%s has no files of CIFAR-10 or CIFAR-100", where);
    content c = {.labels = labels};
    if (of) choose_files(of, split, &c);
    gs_status status = of ? read_folder(path, &c) : read_archive(path, split, &c);
    if (status == GS_OK) status = make_samples(path, &c, labels, d);
    if (status == GS_OK && c.names)
        d->names = gs_class_names_of_lines(c.names, c.names_bytes, c.of->classes[labels]);
    for (int i = 0; i < MOST_FILES; i++) free(c.data[i]);
    free(c.names);
    return status;
}
