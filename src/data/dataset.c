#include "data/dataset.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include "core/text.h"
#include "data/cifar.h"
#include "data/colour.h"
#include "data/folder_set.h"
#include "data/idx.h"
#include "data/text_set.h"
#include "io/file.h"

/* Where Debian's package dataset-fashion-mnist installs its files. */
static const char FASHION_MNIST[] = "/usr/share/datasets/fashion-mnist";

static const char *const set_names[] = {
    "fashion-mnist", "fashion-mnist-small", "colour-fashion", "colour-fashion-small", "jargon", NULL};

enum { PATH_SIZE = 4096 };

typedef enum part { IMAGES, LABELS } part;

static const char *const file_names[2][2] = {
    [GS_TRAIN] = {[IMAGES] = "train-images-idx3-ubyte", [LABELS] = "train-labels-idx1-ubyte"},
    [GS_TEST] = {[IMAGES] = "t10k-images-idx3-ubyte", [LABELS] = "t10k-labels-idx1-ubyte"},
};

/* Look for NAME and NAME.gz, and for both spelled with a dot, as in some copies ("train-images.idx3-ubyte"). */
static bool find_file(const char *folder, gs_split split, part part, char path[PATH_SIZE]) {
    char dotted[64];
    snprintf(dotted, sizeof dotted, "%s", file_names[split][part]);
    *strstr(dotted, "-idx") = '.';
    const char *names[] = {file_names[split][part], dotted}, *ends[] = {"", ".gz"};
    for (int i = 0; i < 4; i++) {
        snprintf(path, PATH_SIZE, "%s/%s%s", folder, names[i / 2], ends[i % 2]);
        if (access(path, F_OK) == 0) return true;
    }
    return false;
}

/* True if at least one of MNIST's four files is there. */
bool gs_mnist_is_at(const char *folder) {
    char path[PATH_SIZE];
    return find_file(folder, GS_TRAIN, IMAGES, path) || find_file(folder, GS_TRAIN, LABELS, path) ||
           find_file(folder, GS_TEST, IMAGES, path) || find_file(folder, GS_TEST, LABELS, path);
}

static gs_status missing(const char *folder, gs_split split, part part) {
    if (gs_mnist_is_at(folder))
        return gs_fail(GS_E_FILE, "%s has no %s, gzipped (.gz) or not", folder, file_names[split][part]);
    GS_TRY(gs_folder_explain(folder));
    GS_TRY(gs_cifar_explain(folder));
    return gs_fail(GS_E_FILE, "%s has no pictures" GS_DATA_FILES " files; MNIST's are %s, %s, %s, %s", folder,
                   file_names[GS_TRAIN][IMAGES], file_names[GS_TRAIN][LABELS], file_names[GS_TEST][IMAGES],
                   file_names[GS_TEST][LABELS]);
}

/* The errno that tells why files in the folder `path` cannot be opened; 0: they can be. */
static int folder_error(const char *path) {
    struct stat s;
    if (stat(path, &s) != 0) return errno;
    if (!S_ISDIR(s.st_mode)) return ENOTDIR;
    if (strlen(path) >= PATH_SIZE - 64) return ENAMETOOLONG;
    return access(path, X_OK) == 0 ? 0 : errno;
}

/* Find the folder that a name or a path refers to. */
static gs_status find_folder(const char *where, char folder[PATH_SIZE]) {
    if (strcmp(where, "fashion-mnist-small") == 0)
        return gs_file_of_gradsum("datasets/fashion-mnist-small", folder, PATH_SIZE);

    if (strcmp(where, "fashion-mnist") == 0) {
        if (folder_error(FASHION_MNIST) != 0)
            return gs_fail(GS_E_FILE,
                           "fashion-mnist is not installed (no folder %s): apt-get install "
                           "dataset-fashion-mnist, or use fashion-mnist-small, which comes with gradsum",
                           FASHION_MNIST);
        snprintf(folder, PATH_SIZE, "%s", FASHION_MNIST);
        return GS_OK;
    }

    int error = folder_error(where);
    if (error && (strcmp(where, "mnist") == 0 || strcmp(where, "MNIST") == 0))
        return gs_fail(
            GS_E_FILE,
            "there is no folder '%s': MNIST does not come with gradsum, and no Debian package has it. "
            "Download its four files (%s.gz, %s.gz, %s.gz, %s.gz) into a folder and pass that folder to "
            "--data; or use fashion-mnist-small, which is included and has the same format",
            where, file_names[GS_TRAIN][IMAGES], file_names[GS_TRAIN][LABELS], file_names[GS_TEST][IMAGES],
            file_names[GS_TEST][LABELS]);
    if (error)
        return gs_fail(GS_E_FILE,
                       "no data at '%s' (%s); wanted fashion-mnist, fashion-mnist-small, colour-fashion, "
                       "colour-fashion-small, jargon, text:FILE, FILE.csv, or a folder with pictures "
                       "(train/CLASS/*.jpg)" GS_DATA_FILES " files%s%s",
                       where, strerror(error), gs_did_you_mean(where, set_names),
                       error == ENOTDIR && strstr(where, ".tar") ? "; an archive is to be unpacked (tar xf)"
                                                                 : "");
    snprintf(folder, PATH_SIZE, "%s", where);
    return GS_OK;
}

gs_status gs_mnist_load(const char *folder, gs_split split, gs_labels fine, gs_dataset *d) {
    char images_path[PATH_SIZE], labels_path[PATH_SIZE];
    (void)fine; /* an image has one label */
    if (!find_file(folder, split, IMAGES, images_path)) return missing(folder, split, IMAGES);
    if (!find_file(folder, split, LABELS, labels_path)) return missing(folder, split, LABELS);

    gs_idx images, labels;
    GS_TRY(gs_idx_load(images_path, 3, &images));
    d->images = images.data;
    d->count = (size_t)images.size[0];
    d->shape = (gs_shape){1, images.size[1], images.size[2], 0};

    GS_TRY(gs_idx_load(labels_path, 1, &labels));
    d->labels = labels.data;
    if (labels.size[0] != images.size[0])
        return gs_fail(GS_E_FORMAT, "%s has %d label%s, but %s has %d image%s", labels_path, labels.size[0],
                       gs_s(labels.size[0]), images_path, images.size[0], gs_s(images.size[0]));
    for (size_t i = 0; i < d->count; i++)
        if (d->labels[i] >= d->classes) d->classes = d->labels[i] + 1;
    return GS_OK;
}

static bool is_name(const char *where) {
    for (const char *const *name = set_names; *name; name++)
        if (strcmp(where, *name) == 0) return true;
    return false;
}

bool gs_dataset_is_relative(const char *where) {
    if (is_name(where)) return false;
    if (strncmp(where, "text:", 5) == 0) where += 5;
    return *where != '/';
}

/* ---- formats ---- */

#define FORMAT(name, files) {files, gs_##name##_is_at, gs_##name##_load},
static const struct format {
    const char *files;
    bool (*is_at)(const char *where);
    gs_status (*load)(const char *where, gs_split, gs_labels, gs_dataset *);
} formats[] = {GS_DATA_FORMATS(FORMAT)};
enum { FORMATS = sizeof formats / sizeof *formats };

/* The one format whose files are there; NULL: none. GS_E_FORMAT: files of two formats. A table next to other samples
 * only describes them (Kaggle's train.csv) and does not count; therefore tables are the last row of `formats`. */
static gs_status find_format(const char *where, const struct format **found) {
    *found = NULL;
    for (int i = 0; i < FORMATS; i++) {
        if (!formats[i].is_at(where)) continue;
        if (formats[i].load == gs_csv_set_load && (*found || gs_folder_is_at(where))) continue;
        if (*found)
            return gs_fail(GS_E_FORMAT, "%s has %s and %s files; wanted one set", where, (*found)->files,
                           formats[i].files);
        *found = &formats[i];
    }
    return GS_OK;
}

bool gs_dataset_is_image_folder(const char *where) {
    const struct format *found;
    return !gs_text_is_at(where) && !is_name(where) && find_format(where, &found) == GS_OK && !found &&
           gs_folder_is_at(where);
}

static gs_status load_from(const char *where, gs_split split, gs_labels labels, const gs_text_options *text,
                           const gs_folder_options *pictures, gs_dataset *d) {
    char folder[PATH_SIZE];
    const struct format *found = NULL;
    if (gs_text_is_at(where) && labels == GS_LABELS_COARSE)
        return gs_fail(GS_E_USAGE,
                       "%s is a text, whose labels are its own tokens: only CIFAR-100 has coarse labels",
                       where);
    if (gs_text_is_at(where)) return gs_text_load(where, split, text, d);
    const bool colour = gs_colour_is_name(where);
    if (!is_name(where)) GS_TRY(find_format(where, &found)); /* a name is not a path */
    if (!colour && !found) {
        GS_TRY(find_folder(where, folder));
        GS_TRY(find_format(folder, &found));
        if (!found) GS_TRY(gs_cifar_explain(folder)); /* for example an archive that was not unpacked */
        where = folder;
    }
    if (labels == GS_LABELS_COARSE && !(found && found->load == gs_cifar_load))
        return gs_fail(GS_E_USAGE, "%s has one label for each image: only CIFAR-100 has coarse labels",
                       where);
    if (colour) return gs_colour_make(where, split, GS_COLOUR_SEED, d);
    if (found) return found->load(where, split, labels, d);
    return gs_folder_is_at(where) ? gs_folder_set_load(where, split, pictures, d)
                                  : missing(where, split, IMAGES);
}

/* The class names are from Xiao, Rasul, Vollgraf, "Fashion-MNIST" (2017). Grey and colour sets share them. */
static void name_classes(const char *where, gs_dataset *d) {
    static const char names[] =
        "T-shirt/top\ntrouser\npullover\ndress\ncoat\nsandal\nshirt\nsneaker\nbag\nankle boot";
    enum { FASHION = 4 }; /* the first FASHION entries of set_names */
    for (int i = 0; i < FASHION && d->names.count == 0; i++)
        if (strcmp(where, set_names[i]) == 0) d->names = gs_class_names_of_lines(names, strlen(names), 10);
}

gs_status gs_dataset_load(const char *where, gs_split split, gs_dataset **out) {
    return gs_dataset_load_with(where, split, GS_LABELS_FINE, NULL, NULL, out);
}

gs_status gs_dataset_load_with(const char *where, gs_split split, gs_labels labels,
                               const gs_text_options *text, const gs_folder_options *pictures,
                               gs_dataset **out) {
    static const gs_text_options usual_text = {.tokens = GS_TOKENS_UNSAID};
    static const gs_folder_options usual_pictures = {0};
    *out = NULL;
    gs_dataset *d = calloc(1, sizeof *d);
    if (!d) return gs_fail(GS_E_MEMORY, "%s: no memory", where);
    snprintf(d->name, sizeof d->name, "%.240s (%s)", where, split == GS_TRAIN ? "train" : "test");
    gs_status st =
        load_from(where, split, labels, text ? text : &usual_text, pictures ? pictures : &usual_pictures, d);
    if (st == GS_OK) name_classes(where, d);
    if (st == GS_OK)
        *out = d;
    else
        gs_dataset_free(d);
    return st;
}

size_t gs_dataset_count(const gs_dataset *d) {
    return d->count;
}

gs_shape gs_dataset_shape(const gs_dataset *d) {
    return d->shape;
}

void gs_dataset_free(gs_dataset *d) {
    if (!d) return;
    gs_folder_set_free(d->folder);
    free(d->images);
    free(d->inputs);
    free(d->targets);
    free(d->labels);
    gs_class_names_free(&d->names);
    gs_text_free(d->text);
    free(d);
}

gs_status gs_dataset_check_labels(const gs_dataset *d, int classes) {
    if (d->text && classes < d->classes)
        return gs_fail(GS_E_FORMAT, "%s has %d different %s, but the model has %d output%s for each token",
                       d->name, d->classes, gs_tokens_word(d->text->vocabulary.kind, 2), classes,
                       gs_s((unsigned)classes));
    if (d->text) return GS_OK;
    size_t each = (size_t)gs_dataset_labels_each(d);
    if (d->folder && d->classes > classes)
        return gs_fail(GS_E_FORMAT, "%s has %d class folders, but the model has %d class%s", d->name,
                       d->classes, classes, gs_es(classes));
    if (strncmp(d->kind, "CIFAR-100", 9) == 0 && classes == 20 && !strstr(d->kind, "coarse"))
        return gs_fail(GS_E_FORMAT, "%s has 100 fine classes, but the model has 20; wanted --labels coarse",
                       d->name);
    for (size_t i = 0; !d->folder && i < d->count * each; i++)
        if (d->labels[i] >= classes)
            return gs_fail(GS_E_FORMAT,
                           "%s: the label of sample %zu is %d, but the model has %d class%s (0 to %d)",
                           d->name, i / each, d->labels[i], classes, gs_es(classes), classes - 1);
    return GS_OK;
}

gs_status gs_dataset_check_tokens(const gs_dataset *d, int vocabulary) {
    const size_t each = gs_shape_size(d->shape);
    if (d->text && vocabulary < d->classes)
        return gs_fail(GS_E_FORMAT,
                       "%s has %d different %s, but the model's embedding has %d row%s; wanted one for each",
                       d->name, d->classes, gs_tokens_word(d->text->vocabulary.kind, 2), vocabulary,
                       gs_s((unsigned)vocabulary));
    if (d->text) return GS_OK;
    if (!d->inputs)
        return gs_fail(GS_E_USAGE,
                       "%s holds bytes of images, but the model's embedding takes token numbers: floats from "
                       "memory (gs_dataset_from_token_labels)",
                       d->name);
    for (size_t i = 0; i < d->count * each; i++) {
        const float x = d->inputs[i];
        if (!(x >= 0 && x < (float)vocabulary) || (float)(int)x != x)
            return gs_fail(
                GS_E_FORMAT,
                "%s: number %zu of sample %zu is %g; the model's embedding takes whole numbers from "
                "0 to %d",
                d->name, i % each, i / each, (double)x, vocabulary - 1);
    }
    return GS_OK;
}

void gs_scaling_add(const unsigned char *bytes, size_t count, size_t plane, size_t channels, uint64_t *sum,
                    uint64_t *squares) {
    for (size_t first = 0; first < count; first += plane) {
        const size_t c = first / plane % channels;
        uint64_t s = 0, q = 0;
        for (size_t i = first; i < first + plane; i++) {
            s += bytes[i];
            q += (uint64_t)bytes[i] * bytes[i];
        }
        sum[c] += s;
        squares[c] += q;
    }
}

gs_scaling gs_scaling_of_sums(int channels, double pixels, const uint64_t *sum, const uint64_t *squares) {
    gs_scaling out = {.mean.count = channels, .std.count = channels};
    for (int c = 0; c < channels; c++) {
        const double mean = (double)sum[c] / pixels, variance = (double)squares[c] / pixels - mean * mean;
        out.mean.of[c] = (float)(mean / 255);
        out.std.of[c] = variance > 0 ? (float)(sqrt(variance) / 255) : 1.0f;
    }
    return out;
}

gs_scaling gs_dataset_scaling(const gs_dataset *d) {
    if (gs_dataset_is_numbers(d)) return GS_NOT_SCALED;
    if (d->folder) return d->folder->scaling;
    const int channels = d->shape.c <= GS_CHANNELS ? d->shape.c : 1;
    const size_t bytes = d->count * gs_shape_size(d->shape);
    const size_t plane = channels > 1 ? (size_t)d->shape.h * (size_t)d->shape.w : bytes;
    uint64_t sum[GS_CHANNELS] = {0}, squares[GS_CHANNELS] = {0};
    gs_scaling_add(d->images, bytes, plane, (size_t)channels, sum, squares);
    const size_t each = bytes / (size_t)channels;
    return gs_scaling_of_sums(channels, (double)each, sum, squares);
}

/* ---- class names ---- */

void gs_class_names_free(gs_class_names *n) {
    for (int i = 0; i < n->count; i++) free(n->name[i]);
    free(n->name);
    *n = (gs_class_names){0};
}

gs_class_names gs_class_names_of_lines(const char *text, size_t bytes, int classes) {
    gs_class_names n = {.name = calloc((size_t)classes + 1, sizeof *n.name)};
    const char *end = text + bytes;
    while (n.name && n.count < classes && text < end) {
        const char *line_end = memchr(text, '\n', (size_t)(end - text)),
                   *next = line_end ? line_end + 1 : end;
        if (!line_end) line_end = end;
        while (line_end > text && (line_end[-1] == '\r' || line_end[-1] == ' ')) line_end--;
        if (line_end == text || !(n.name[n.count] = strndup(text, (size_t)(line_end - text)))) break;
        n.count++;
        text = next;
    }
    if (n.count < classes) gs_class_names_free(&n);
    return n;
}

gs_class_names gs_class_names_of_tokens(const gs_vocabulary *v) {
    if (v->kind != GS_TOKENS_CHARS) return (gs_class_names){0};
    gs_class_names n = {.name = calloc((size_t)v->size + 1, sizeof *n.name)};
    for (int k = 0; k < v->size && n.name; k++, n.count++) {
        char text[5];
        gs_utf8_write(v->character[k], text);
        if (!(n.name[k] = strdup(v->character[k] == ' ' ? "' '" : text))) break;
    }
    if (n.count < v->size) gs_class_names_free(&n);
    return n;
}

const char *gs_class_name(const gs_class_names *n, int k, char room[GS_CLASS_NAME]) {
    if (k < n->count) return gs_printable_into(room, GS_CLASS_NAME, n->name[k], "");
    snprintf(room, GS_CLASS_NAME, "%d", k);
    return room;
}

uint32_t gs_data_checksum(const gs_dataset *d) {
    const gs_text *t = d->text;
    if (d->folder) return d->folder->checksum;
    if (t)
        return (uint32_t)(crc32_z(0, (const void *)t->token, t->count * sizeof *t->token) ^
                          crc32_z(0, (const void *)&t->context, sizeof t->context));
    const void *inputs = d->inputs ? (void *)d->inputs : d->images;
    const void *targets = d->targets ? (void *)d->targets : d->labels;
    const size_t target_bytes = d->targets ? gs_dataset_target_bytes(d) : (size_t)gs_dataset_labels_each(d);
    return (uint32_t)(crc32_z(0, targets, d->count * target_bytes) ^
                      crc32_z(0, inputs, d->count * gs_dataset_input_bytes(d)));
}

/* ---- sets of floats from the caller ---- */

/* A copy of count x each floats; NULL: out of memory. */
static float *copy_of(const float *from, size_t count, size_t each) {
    size_t bytes;
    if (!from) gs_bug("a data set in memory without inputs or targets");
    if (__builtin_mul_overflow(count, each * sizeof *from, &bytes)) return NULL;
    float *copy = malloc(bytes);
    return copy ? memcpy(copy, from, bytes) : NULL;
}

static gs_status copy_labels(gs_dataset *d, int each, const int32_t *labels) {
    size_t count;
    if (each < 1) return gs_fail(GS_E_USAGE, "%s: %d labels per sample; wanted at least 1", d->name, each);
    d->labels_each = each;
    d->labels = __builtin_mul_overflow(d->count, (size_t)each, &count) ? NULL : malloc(count);
    if (!d->labels) return gs_fail(GS_E_MEMORY, "%s: no memory for %zu x %d labels", d->name, d->count, each);
    for (size_t i = 0; i < count; i++) {
        if (labels[i] < 0 || labels[i] > UCHAR_MAX)
            return gs_fail(GS_E_FORMAT, "%s: the label of sample %zu is %d; wanted 0 to %d", d->name,
                           i / (size_t)each, labels[i], UCHAR_MAX);
        d->labels[i] = (unsigned char)labels[i];
        if (labels[i] >= d->classes) d->classes = labels[i] + 1;
    }
    return GS_OK;
}

static gs_status copy_targets(gs_dataset *d, int outputs, const float *targets) {
    if (outputs < 1)
        return gs_fail(GS_E_USAGE, "%s: %d targets per sample; wanted at least 1", d->name, outputs);
    d->outputs = outputs;
    d->targets = copy_of(targets, d->count, (size_t)outputs);
    return d->targets
               ? GS_OK
               : gs_fail(GS_E_MEMORY, "%s: no memory for %zu x %d targets", d->name, d->count, outputs);
}

static gs_status copy_inputs(gs_dataset *d, gs_shape shape, const float *inputs) {
    if (d->count == 0) return gs_fail(GS_E_USAGE, "%s: there are no samples", d->name);
    if (d->count > UINT32_MAX)
        return gs_fail(GS_E_USAGE, "%s: %zu samples; at most %u are allowed", d->name, d->count, UINT32_MAX);
    if (!gs_shape_is_positive(shape) || !gs_shape_fits(shape))
        return gs_fail(GS_E_USAGE, "%s: a sample is %s; wanted sizes of at least 1, and at most %d numbers",
                       d->name, gs_shape_tuple(shape).text, GS_SHAPE_MOST);
    d->shape = shape;
    d->inputs = copy_of(inputs, d->count, gs_shape_size(shape));
    if (d->inputs) return GS_OK;
    return gs_fail(GS_E_MEMORY, "%s: no memory for %zu samples of %s", d->name, d->count,
                   gs_shape_tuple(shape).text);
}

/* Labels or targets, `each` per sample. */
static gs_status from_memory(const char *name, size_t count, gs_shape shape, const float *inputs, int each,
                             const int32_t *labels, const float *targets, gs_dataset **out) {
    GS_TRY(GS_NEW(*out, 1, "%s", name));
    snprintf((*out)->name, sizeof(*out)->name, "%s", name);
    (*out)->count = count;
    gs_status status = copy_inputs(*out, shape, inputs);
    if (status == GS_OK)
        status = labels ? copy_labels(*out, each, labels) : copy_targets(*out, each, targets);
    if (status == GS_OK) return GS_OK;
    gs_dataset_free(*out);
    *out = NULL;
    return status;
}

gs_status gs_dataset_from_labels(const char *name, size_t count, gs_shape shape, const float *inputs,
                                 const int32_t *labels, gs_dataset **out) {
    return from_memory(name, count, shape, inputs, 1, labels, NULL, out);
}

gs_status gs_dataset_from_token_labels(const char *name, size_t count, gs_shape shape, const float *inputs,
                                       int each, const int32_t *labels, gs_dataset **out) {
    return from_memory(name, count, shape, inputs, each, labels, NULL, out);
}

gs_status gs_dataset_from_targets(const char *name, size_t count, gs_shape shape, const float *inputs,
                                  int outputs, const float *targets, gs_dataset **out) {
    return from_memory(name, count, shape, inputs, outputs, NULL, targets, out);
}
