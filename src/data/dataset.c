#include "data/dataset.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include "core/nearest.h"
#include "core/text.h"
#include "data/cifar.h"
#include "data/colour.h"
#include "data/folder_list.h"
#include "data/folder_set.h"
#include "data/idx.h"
#include "data/npy_set.h"
#include "data/text_set.h"
#include "data/source.h"
#include "io/file.h"

/* Where Debian's package dataset-fashion-mnist puts the full set. */
static const char FASHION_MNIST[] = "/usr/share/datasets/fashion-mnist";

/* What is no path. */
static const char *const set_names[] = {
    "fashion-mnist", "fashion-mnist-small", "colour-fashion", "colour-fashion-small", "jargon", NULL};

enum { PATH_SIZE = 4096 };

typedef enum part { IMAGES, LABELS } part;

static const char *const file_names[2][2] = {
    [GS_TRAIN] = {[IMAGES] = "train-images-idx3-ubyte", [LABELS] = "train-labels-idx1-ubyte"},
    [GS_TEST] = {[IMAGES] = "t10k-images-idx3-ubyte", [LABELS] = "t10k-labels-idx1-ubyte"},
};

/* Look for one file: NAME and NAME.gz, and both with the dot that some copies have
 * ("train-images.idx3-ubyte"). */
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

/* MNIST's four files. */
static bool is_mnist(const char *folder) {
    char path[PATH_SIZE];
    return find_file(folder, GS_TRAIN, IMAGES, path) || find_file(folder, GS_TRAIN, LABELS, path) ||
           find_file(folder, GS_TEST, IMAGES, path) || find_file(folder, GS_TEST, LABELS, path);
}

static gs_status missing(const char *folder, gs_split split, part part) {
    if (is_mnist(folder))
        return gs_fail(GS_E_FILE, "%s has no %s, gzipped (.gz) or not", folder, file_names[split][part]);
    GS_TRY(gs_folder_explain(folder));
    GS_TRY(gs_cifar_explain(folder));
    return gs_fail(GS_E_FILE, "%s has no pictures, .npy or CIFAR files, and none of MNIST's: %s, %s, %s, %s",
                   folder, file_names[GS_TRAIN][IMAGES], file_names[GS_TRAIN][LABELS],
                   file_names[GS_TEST][IMAGES], file_names[GS_TEST][LABELS]);
}

/* Why files cannot be opened in `path`, as an errno; 0: they can. */
static int folder_error(const char *path) {
    struct stat s;
    if (stat(path, &s) != 0) return errno;
    if (!S_ISDIR(s.st_mode)) return ENOTDIR;
    if (strlen(path) >= PATH_SIZE - 64) return ENAMETOOLONG;
    return access(path, X_OK) == 0 ? 0 : errno;
}

/* What the user wrote -> the folder. */
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
        return gs_fail(
            GS_E_FILE,
            "no data at '%s' (%s); wanted fashion-mnist, fashion-mnist-small, colour-fashion, "
            "colour-fashion-small, jargon, text:FILE, or a folder with pictures (train/CLASS/*.jpg), "
            ".npy files, MNIST-format files or those of CIFAR%s%s",
            where, strerror(error), gs_did_you_mean(where, set_names),
            error == ENOTDIR && strstr(where, ".tar") ? "; an archive is to be unpacked (tar xf)" : "");
    snprintf(folder, PATH_SIZE, "%s", where);
    return GS_OK;
}

static gs_status load_mnist(const char *folder, gs_split split, gs_dataset *d) {
    char images_path[PATH_SIZE], labels_path[PATH_SIZE];
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

bool gs_dataset_is_relative(const char *where) {
    for (const char *const *name = set_names; *name; name++)
        if (strcmp(where, *name) == 0) return false;
    if (strncmp(where, "text:", 5) == 0) where += 5;
    return *where != '/';
}

bool gs_dataset_is_image_folder(const char *where) {
    return !gs_text_is_at(where) && !gs_colour_is_name(where) && !gs_npy_is_at(where) &&
           !gs_cifar_is_at(where) && !is_mnist(where) && gs_folder_is_at(where);
}

static gs_status load_from(const char *where, gs_split split, gs_labels labels, const gs_text_options *text,
                           const gs_folder_options *pictures, gs_dataset *d) {
    char folder[PATH_SIZE];
    if (gs_text_is_at(where) && labels == GS_LABELS_COARSE)
        return gs_fail(GS_E_USAGE,
                       "%s is a text, whose labels are its own tokens: only CIFAR-100 has coarse labels",
                       where);
    if (gs_text_is_at(where)) return gs_text_load(where, split, text, d);
    const bool colour = gs_colour_is_name(where), npy = !colour && gs_npy_is_at(where),
               cifar = !colour && gs_cifar_is_at(where);
    if (npy && (cifar || is_mnist(where)))
        return gs_fail(GS_E_FORMAT, "%s has .npy files and those of MNIST or CIFAR; wanted one set", where);
    if (!colour && !npy && !cifar) GS_TRY(find_folder(where, folder));
    if (cifar && !is_mnist(where)) return gs_cifar_load(where, split, labels, d);
    if (cifar)
        return gs_fail(GS_E_FORMAT, "%s has files of MNIST's format and of CIFAR's; wanted one set", where);
    if (!colour && !npy && !is_mnist(folder))
        GS_TRY(gs_cifar_explain(folder)); /* one that is still packed, say */
    if (labels == GS_LABELS_COARSE)
        return gs_fail(GS_E_USAGE, "%s has one label for each image: only CIFAR-100 has coarse labels",
                       where);
    if (npy) return gs_npy_set_load(where, split, d);
    if (!colour && !is_mnist(folder) && gs_folder_is_at(folder))
        return gs_folder_set_load(folder, split, pictures, d);
    return colour ? gs_colour_load(where, split, d) : load_mnist(folder, split, d);
}

/* As Xiao, Rasul and Vollgraf, "Fashion-MNIST" (2017), name the labels; the colourful images have them too. */
static void name_classes(const char *where, gs_dataset *d) {
    static const char names[] =
        "T-shirt/top\ntrouser\npullover\ndress\ncoat\nsandal\nshirt\nsneaker\nbag\nankle boot";
    enum { FASHION = 4 }; /* the first of set_names */
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
    if (d->source) d->source->free(d->source);
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
    if (d->source && d->classes > classes)
        return gs_fail(GS_E_FORMAT, "%s has %d class folders, but the model has %d class%s", d->name,
                       d->classes, classes, gs_es(classes));
    if (strncmp(d->kind, "CIFAR-100", 9) == 0 && classes == 20 && !strstr(d->kind, "coarse"))
        return gs_fail(GS_E_FORMAT, "%s has 100 fine classes, but the model has 20; wanted --labels coarse",
                       d->name);
    for (size_t i = 0; !d->source && i < d->count * each; i++)
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
    if (d->source) return d->source->scaling;
    const int channels = d->shape.c <= GS_CHANNELS ? d->shape.c : 1;
    const size_t bytes = d->count * gs_shape_size(d->shape);
    const size_t plane = channels > 1 ? (size_t)d->shape.h * (size_t)d->shape.w : bytes;
    uint64_t sum[GS_CHANNELS] = {0}, squares[GS_CHANNELS] = {0};
    for (size_t first = 0; first < bytes; first += plane) {
        const size_t c = first / plane % (size_t)channels;
        uint64_t s = 0, q = 0;
        for (size_t i = first; i < first + plane; i++) {
            s += d->images[i];
            q += (uint64_t)d->images[i] * d->images[i];
        }
        sum[c] += s;
        squares[c] += q;
    }
    const size_t pixels = bytes / (size_t)channels;
    return gs_scaling_of_sums(channels, (double)pixels, sum, squares);
}

/* ---- the classes' names ---- */

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
    if (d->source) return d->source->checksum;
    if (t)
        return (uint32_t)(crc32_z(0, (const void *)t->token, t->count * sizeof *t->token) ^
                          crc32_z(0, (const void *)&t->context, sizeof t->context));
    const void *inputs = d->inputs ? (void *)d->inputs : d->images;
    const void *targets = d->targets ? (void *)d->targets : d->labels;
    const size_t target_bytes = d->targets ? gs_dataset_target_bytes(d) : (size_t)gs_dataset_labels_each(d);
    return (uint32_t)(crc32_z(0, targets, d->count * target_bytes) ^
                      crc32_z(0, inputs, d->count * gs_dataset_input_bytes(d)));
}
