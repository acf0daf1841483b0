#include "data/folder_set.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <zlib.h>
#include "core/memory.h"
#include "core/text.h"
#include "core/thread.h"
#include "data/order.h"
#include "data/view.h"
#include "io/file.h"
#include "io/picture.h"

/* ---- file names ---- */

/* Picture formats that gradsum cannot read. */
static const char *const other_ends[] = {".webp", ".bmp", ".tif", ".tiff", ".gif", ".avif", ".heic"};
enum { OTHERS = sizeof other_ends / sizeof *other_ends };

/* The number of pictures with each of these endings, and their total. */
typedef struct others {
    size_t of[OTHERS], all;
} others;

typedef gs_class_names name_list; /* of folders or of pictures, sorted */

static bool is_folder(const char *path) {
    struct stat s;
    return stat(path, &s) == 0 && S_ISDIR(s.st_mode);
}

/* The index of the name's ending, ignoring the case of ASCII letters in any locale; -1: none of them. */
static int ending_of(const char *name, const char *const *ends, int count) {
    const size_t length = strlen(name);
    const locale_t own = gs_c_locale();
    int found = -1;
    for (int i = 0; i < count; i++) {
        const size_t end = strlen(ends[i]);
        if (length > end && strcasecmp(name + length - end, ends[i]) == 0) found = i;
    }
    uselocale(own);
    return found;
}

static bool is_picture(const char *name) {
    static const char *const ends[] = {".jpg", ".jpeg", ".jfif", ".png"};
    return ending_of(name, ends, 4) >= 0;
}

/* True for a folder or a link to one. Uses stat if the file system reports no type. */
static bool entry_is_folder(const char *folder, const struct dirent *e) {
    char path[8192];
    if (e->d_type != DT_LNK && e->d_type != DT_UNKNOWN) return e->d_type == DT_DIR;
    return snprintf(path, sizeof path, "%s/%s", folder, e->d_name) < (int)sizeof path && is_folder(path);
}

static int by_name(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* __MACOSX: a folder without pictures, created by unpacking some .zip files. */
static int is_listed(const struct dirent *e) {
    return e->d_name[0] != '.' && strcmp(e->d_name, "__MACOSX") != 0;
}

static int by_bytes(const struct dirent **a, const struct dirent **b) {
    return strcmp((*a)->d_name, (*b)->d_name);
}

/* List the folders in `folder` or, with `left_out`, the pictures in it, and count the pictures left out. Free the list
 * even after a failure. */
static gs_status list(const char *folder, name_list *all, others *left_out) {
    struct dirent **found = NULL;
    *all = (name_list){0};
    const int count = scandir(folder, &found, is_listed, by_bytes);
    if (count < 0) return gs_fail(GS_E_FILE, "cannot read the folder %s: %s", folder, strerror(errno));
    gs_status status = GS_NEW(all->name, count, "%s: the names of %d files", folder, count);
    for (int i = 0; i < count; i++) {
        const char *name = found[i]->d_name;
        const int other = left_out ? ending_of(name, other_ends, OTHERS) : -1;
        if (other >= 0) left_out->of[other]++, left_out->all++;
        const bool wanted = left_out ? is_picture(name) : entry_is_folder(folder, found[i]);
        if (wanted && status == GS_OK && !(all->name[all->count++] = strdup(name)))
            status = gs_fail(GS_E_MEMORY, "%s: no memory for the names of its files", folder);
        free(found[i]);
    }
    free(found);
    return status;
}

bool gs_folder_is_at(const char *where) {
    char path[4096];
    const char *const names[] = {"train", "val"};
    for (int i = 0; i < 2; i++)
        if (snprintf(path, sizeof path, "%s/%s", where, names[i]) < (int)sizeof path && is_folder(path))
            return true;
    return false;
}

/* ---- pictures in the wrong place ---- */

static bool has_pictures(const char *folder) {
    name_list pictures;
    others none = {0};
    const bool has = list(folder, &pictures, &none) == GS_OK && pictures.count > 0;
    gs_class_names_free(&pictures);
    return has;
}

static bool has_classes(const char *folder) {
    char path[8192];
    name_list folders;
    bool has = false;
    const gs_status status = list(folder, &folders, NULL);
    for (int i = 0; status == GS_OK && i < folders.count && !has; i++)
        has = snprintf(path, sizeof path, "%s/%s", folder, folders.name[i]) < (int)sizeof path &&
              has_pictures(path);
    gs_class_names_free(&folders);
    return has;
}

gs_status gs_folder_explain(const char *where) {
    if (!has_classes(where) && !has_pictures(where)) return GS_OK;
    return gs_fail(GS_E_FILE,
                   "%s has pictures, but no folders train and val; wanted the folder that holds "
                   "train/CLASS/*.jpg and val/CLASS/*.jpg",
                   where);
}

/* ---- the list of one split ---- */

typedef struct builder {
    gs_folder_list *list;
    size_t files_room, names_used, names_room;
    others left_out;
} builder;

static gs_status add_file(builder *b, const char *class, const char *name, int32_t label) {
    gs_folder_list *l = b->list;
    const size_t bytes = strlen(class) + strlen(name) + 2;
    bool fits = gs_grow(&l->files, l->count, &b->files_room, sizeof *l->files);
    while (fits && b->names_used + bytes > b->names_room)
        fits = gs_grow(&l->names, b->names_room, &b->names_room, 1);
    if (!fits) return gs_fail(GS_E_MEMORY, "%s: no memory for the names of %zu files", l->folder, l->count);
    l->files[l->count++] = (gs_folder_file){b->names_used, label};
    snprintf(l->names + b->names_used, bytes, "%s/%s", class, name);
    b->names_used += bytes;
    return GS_OK;
}

static gs_status add_class(builder *b, const char *class, int32_t label, bool may_be_empty) {
    char path[8192];
    name_list files;
    const char *folder = b->list->folder;
    if (snprintf(path, sizeof path, "%s/%s", folder, class) >= (int)sizeof path)
        return gs_fail(GS_E_FILE, "%s/%s: the path is too long", folder, gs_printable(class));
    const size_t others_before = b->left_out.all;
    gs_status status = list(path, &files, &b->left_out);
    for (int i = 0; i < files.count && status == GS_OK; i++)
        status = add_file(b, class, files.name[i], label);
    if (status == GS_OK && files.count == 0 && !may_be_empty)
        status = gs_fail(GS_E_FORMAT, "%s: the class folder %s has no .jpg, .jpeg, .jfif or .png%s", folder,
                         gs_printable(class),
                         b->left_out.all > others_before
                             ? ", but pictures in other formats; convert them to JPEG or PNG"
                             : " in it; folders within it are not searched");
    gs_class_names_free(&files);
    return status;
}

static gs_status no_classes(const char *folder) {
    return gs_fail(GS_E_FORMAT, "%s has no class folders%s; wanted %s/CLASS/*.jpg", folder,
                   has_pictures(folder) ? ", but pictures that lie in no class" : "", folder);
}

/* Record the classes that have no files here. The files are sorted by label. */
static void name_absent(gs_folder_list *l, const name_list *classes) {
    size_t file = 0, absent = 0;
    int first = 0;
    for (int c = 0; c < classes->count; c++) {
        while (file < l->count && l->files[file].label < c) file++;
        if (file < l->count && l->files[file].label == c) continue;
        if (absent++ == 0) first = c;
    }
    if (absent > 0) gs_append(l->absent, sizeof l->absent, "%s", gs_printable(classes->name[first]));
    if (absent > 1)
        gs_append(l->absent, sizeof l->absent, " and %zu other class%s", absent - 1, absent > 2 ? "es" : "");
}

static gs_status add_classes(builder *b, const name_list *classes, const name_list *own, gs_split split) {
    for (int i = 0; i < own->count; i++) {
        char **at =
            bsearch(&own->name[i], classes->name, (size_t)classes->count, sizeof *classes->name, by_name);
        if (!at)
            return gs_fail(GS_E_FORMAT, "%s has a class %s, which the folder train beside it does not have",
                           b->list->folder, gs_printable(own->name[i]));
        GS_TRY(add_class(b, own->name[i], (int32_t)(at - classes->name), split == GS_TEST));
    }
    char *left_out = b->list->left_out;
    const size_t room = sizeof b->list->left_out;
    for (int k = 0; k < OTHERS; k++)
        if (b->left_out.of[k] > 0)
            gs_append(left_out, room, "%s%zu %s", *left_out ? ", " : "", b->left_out.of[k], other_ends[k]);
    name_absent(b->list, classes);
    if (b->list->count == 0)
        return gs_fail(GS_E_FORMAT, "%s: none of its class folders has a .jpg, .jpeg, .jfif or .png",
                       b->list->folder);
    if (b->list->count > UINT32_MAX)
        return gs_fail(GS_E_FORMAT, "%s has %zu pictures; at most %u are allowed", b->list->folder,
                       b->list->count, UINT32_MAX);
    return GS_OK;
}

static gs_status find_split(const char *where, gs_split split, char *train, char *folder, size_t size) {
    if (snprintf(train, size, "%s/train", where) >= (int)size)
        return gs_fail(GS_E_FILE, "%.80s...: the path is too long", where);
    if (!is_folder(train))
        return gs_fail(GS_E_FILE, "%s has no folder train, whose class folders give the labels their numbers",
                       where);
    snprintf(folder, size, "%s/%s", where, split == GS_TRAIN ? "train" : "val");
    if (split == GS_TEST && !is_folder(folder)) snprintf(folder, size, "%s/test", where);
    if (is_folder(folder)) return GS_OK;
    return gs_fail(GS_E_FILE, "%s has a folder train, but neither val nor test", where);
}

static gs_status read_list(const char *train, gs_split split, gs_folder_list *out) {
    name_list classes, own = {0};
    builder b = {.list = out};
    gs_status status = list(train, &classes, NULL);
    if (status == GS_OK && classes.count == 0) status = no_classes(train);
    if (status == GS_OK && split == GS_TEST) status = list(out->folder, &own, NULL);
    if (status == GS_OK && split == GS_TEST && own.count == 0) status = no_classes(out->folder);
    if (status == GS_OK) status = add_classes(&b, &classes, split == GS_TEST ? &own : &classes, split);
    if (status == GS_OK) out->classes = classes;
    if (status != GS_OK) gs_class_names_free(&classes);
    gs_class_names_free(&own);
    return status;
}

gs_status gs_folder_list_read(const char *where, gs_split split, gs_folder_list *out) {
    char train[sizeof out->folder];
    *out = (gs_folder_list){0};
    GS_TRY(find_split(where, split, train, out->folder, sizeof out->folder));
    gs_status status = read_list(train, split, out);
    if (status != GS_OK) gs_folder_list_free(out);
    return status;
}

void gs_folder_list_free(gs_folder_list *l) {
    free(l->files);
    free(l->names);
    gs_class_names_free(&l->classes);
    *l = (gs_folder_list){0};
}

/* ---- its samples ---- */

enum { PATH_SIZE = 8192 };

/* The private tools of a decoding thread. */
typedef struct tools {
    gs_picture_reader *reader;
    gs_resizer resizer;
    unsigned char *picture; /* a sample before --augment changes it */
} tools;

/* A request for samples in progress. */
typedef struct reading {
    gs_folder_set *f;
    const gs_dataset *set;
    const gs_sample_request *wanted;
    unsigned char *inputs;
    int32_t *targets;
    pthread_mutex_t lock; /* guards the members below */
    size_t begun;         /* samples taken by a thread */
    gs_error error;
    size_t failed_at;
} reading;

/* ---- one file: read, decoded, cropped and resized to a sample ---- */

/* Messages omit the file's name, because decode_file prepends it. */
static gs_status read_file(const char *path, char **file, size_t *bytes) {
    FILE *f;
    uint64_t size;
    const gs_status opened = gs_file_open_stream(path, &f, &size);
    if (opened == GS_E_MEMORY || (opened != GS_OK && (errno == EMFILE || errno == ENFILE || errno == ENOMEM)))
        return gs_fail(GS_E_MEMORY, "cannot be opened: %s", strerror(errno)); /* not the file's fault */
    if (opened != GS_OK)
        return gs_fail(GS_E_FILE, "cannot be read: %s",
                       errno == EINVAL ? "it is no regular file" : strerror(errno));
    gs_status status = GS_OK;
    if (size > GS_FOLDER_FILE)
        status = gs_fail(GS_E_FORMAT, "the file has %llu bytes; at most %d are allowed",
                         (unsigned long long)size, GS_FOLDER_FILE);
    else if (!(*file = malloc((size_t)size + 1)))
        status = gs_fail(GS_E_MEMORY, "no memory for its %llu bytes", (unsigned long long)size);
    else if ((*bytes = fread(*file, 1, (size_t)size, f)) < size && ferror(f))
        status = gs_fail(GS_E_FILE, "cannot be read: %s", strerror(errno));
    fclose(f);
    return status;
}

static gs_status decode(tools *t, const void *file, size_t bytes, int size, const gs_sample_request *w,
                        size_t sample, unsigned char *out) {
    const unsigned char *rgb;
    int width, height, small_width, small_height;
    GS_TRY(gs_picture_begin(t->reader, file, bytes, &width, &height));
    const gs_view whole = w->augment && w->augment->resized_crop
                              ? gs_view_resized(width, height, size, w->seed, w->epoch, sample)
                              : gs_view_centre(width, height, size);
    GS_TRY(gs_picture_decode(t->reader, gs_view_shrink(&whole), &rgb, &small_width, &small_height));
    const gs_view view = gs_view_of_small(&whole, width, height, small_width, small_height);
    if (gs_resize(&t->resizer, rgb, small_width, view.across, view.down, size, out)) return GS_OK;
    return gs_fail(GS_E_MEMORY, "no memory to make it %d x %d", size, size);
}

/* Decode file `i` of the list to out[3][size][size], cropped for sample `sample`. A failure names the file's path and
 * number. */
static gs_status decode_file(tools *t, const gs_folder_list *list, size_t i, int size,
                             const gs_sample_request *w, size_t sample, unsigned char *out) {
    char path[PATH_SIZE], shown[700], *file = NULL;
    size_t bytes = 0;
    gs_status status =
        snprintf(path, sizeof path, "%s/%s", list->folder, gs_folder_name(list, i)) < (int)sizeof path
            ? read_file(path, &file, &bytes)
            : gs_fail(GS_E_FILE, "the path is too long");
    if (status == GS_OK) status = decode(t, file, bytes, size, w, sample, out);
    free(file);
    return gs_context(status, "%s, file %zu of %zu", gs_printable_into(shown, sizeof shown, path, ""), i + 1,
                      list->count);
}

/* ---- one sample ---- */

/* Decode the first file, from *i on, that can be decoded; *i becomes its index. */
static gs_status decode_good(gs_folder_set *f, tools *t, size_t *i, const gs_sample_request *w,
                             unsigned char *out) {
    const size_t count = f->list.count, sample = *i;
    for (size_t k = 0; k < count; k++) {
        *i = (sample + k) % count;
        if (f->is_broken && __atomic_load_n(&f->is_broken[*i], __ATOMIC_RELAXED)) continue;
        const gs_status status = decode_file(t, &f->list, *i, f->size, w, sample, out);
        if (status != GS_E_FILE && status != GS_E_FORMAT) return status;
        if (!f->is_broken)
            return gs_fail(status, "%s; remove it, or use --skip-broken where the command takes it",
                           gs_message());
        __atomic_store_n(&f->is_broken[*i], 1, __ATOMIC_RELAXED);
    }
    return gs_fail(GS_E_FORMAT, "%s: none of its %zu files can be decoded", f->list.folder, count);
}

static gs_status read_sample(const reading *r, tools *t, size_t k) {
    const gs_sample_request *w = r->wanted;
    const size_t sample = gs_sample_request_at(w, k), bytes = gs_dataset_input_bytes(r->set);
    size_t i = sample;
    if (sample >= r->set->count) gs_bug("gs_dataset_gather: sample %zu of %zu", sample, r->set->count);
    unsigned char *out = r->inputs + k * bytes;
    const gs_augment *a = w->augment;
    const bool changed = a && (a->crop || a->flip || a->cutout); /* after cropping */
    if (changed && !t->picture) t->picture = malloc(bytes);      /* all samples of a set have the same size */
    unsigned char *cut = changed ? t->picture : out;
    if (!cut) return gs_fail(GS_E_MEMORY, "no memory for a sample of %zu bytes", bytes);
    GS_TRY(decode_good(r->f, t, &i, w, cut));
    if (changed) gs_augment_picture(a, r->set->shape, 1, w->seed, w->epoch, sample, cut, out);
    if (r->targets) r->targets[k] = r->f->list.files[i].label;
    return GS_OK;
}

/* ---- requests, by several threads ---- */

/* If several files fail, the smallest index counts, because the result must not depend on the number of threads.
 * Indices are taken in order, so after a failure at i all samples below i have been begun. */
static void note_failure(reading *r, size_t i, gs_status status) {
    if (status == GS_OK || (r->error.status != GS_OK && r->failed_at < i)) return;
    r->failed_at = i;
    r->error.status = GS_OK; /* the earlier error had a larger index */
    gs_error_keep(&r->error, status);
}

/* Decode samples until none is left. */
static void *take_part(void *argument) {
    reading *r = argument;
    tools mine = {.picture = NULL};
    gs_status status = gs_picture_reader_create(&mine.reader);
    pthread_mutex_lock(&r->lock);
    note_failure(r, r->begun, status);
    while (r->begun < r->wanted->n && r->error.status == GS_OK) {
        const size_t i = r->begun++;
        pthread_mutex_unlock(&r->lock);
        status = read_sample(r, &mine, i);
        pthread_mutex_lock(&r->lock);
        note_failure(r, i, status);
    }
    pthread_mutex_unlock(&r->lock);
    gs_picture_reader_free(mine.reader);
    gs_resizer_free(&mine.resizer);
    free(mine.picture);
    return NULL;
}

gs_status gs_folder_set_read(gs_folder_set *f, const gs_dataset *set, const gs_sample_request *w,
                             unsigned char *inputs, int32_t *targets) {
    reading r = {.f = f, .set = set, .wanted = w, .inputs = inputs, .targets = targets};
    pthread_t helper[GS_FOLDER_LOADERS];
    int helpers = 0;
    for (size_t k = 0; !inputs && targets && k < w->n; k++)
        targets[k] = f->list.files[gs_sample_request_at(w, k)].label;
    if (!inputs || w->n == 0) return GS_OK;
    pthread_mutex_init(&r.lock, NULL);
    for (; helpers < GS_FOLDER_LOADERS && (size_t)helpers + 1 < w->n; helpers++)
        if (__atomic_add_fetch(&f->helpers, 1, __ATOMIC_RELAXED) >= f->loaders ||
            gs_thread_start(&helper[helpers], take_part, &r) != 0) {
            __atomic_sub_fetch(&f->helpers, 1, __ATOMIC_RELAXED);
            break;
        }
    take_part(&r);
    for (int i = 0; i < helpers; i++) pthread_join(helper[i], NULL);
    __atomic_sub_fetch(&f->helpers, helpers, __ATOMIC_RELAXED);
    pthread_mutex_destroy(&r.lock);
    return gs_error_again(&r.error);
}

/* ---- create, free ---- */

void gs_folder_set_free(gs_folder_set *f) {
    if (!f) return;
    gs_folder_list_free(&f->list);
    free(f->is_broken);
    free(f);
}

static uint32_t checksum_of(const gs_folder_set *f) {
    uint32_t sum = (uint32_t)crc32_z(0, (const void *)&f->size, sizeof f->size);
    for (size_t i = 0; i < f->list.count; i++) {
        const char *name = gs_folder_name(&f->list, i);
        sum = (uint32_t)crc32_z(sum, (const void *)name, strlen(name) + 1);
        sum = (uint32_t)crc32_z(sum, (const void *)&f->list.files[i].label, sizeof(int32_t));
    }
    return sum;
}

static gs_status measure_scaling(gs_folder_set *f, const gs_dataset *d) {
    enum { AT_ONCE = 32 };
    const size_t plane = (size_t)f->size * (size_t)f->size,
                 drawn = d->count < GS_FOLDER_DRAWN ? d->count : GS_FOLDER_DRAWN;
    uint32_t *order = malloc(d->count * sizeof *order);
    unsigned char *pictures = malloc(AT_ONCE * 3 * plane);
    uint64_t sum[3] = {0}, squares[3] = {0};
    gs_status status =
        order && pictures ? GS_OK : gs_fail(GS_E_MEMORY, "%s: no memory for its mean", d->name);
    if (order) gs_epoch_order(0, 0, d->count, order);
    for (size_t first = 0; first < drawn && status == GS_OK; first += AT_ONCE) {
        const size_t n = drawn - first < AT_ONCE ? drawn - first : AT_ONCE;
        status = gs_dataset_gather(d, order + first, 0, n, pictures, NULL);
        if (status == GS_OK) gs_scaling_add(pictures, n * 3 * plane, plane, 3, sum, squares);
    }
    free(order);
    free(pictures);
    GS_TRY(status);
    f->scaling = gs_scaling_of_sums(3, (double)drawn * (double)plane, sum, squares);
    return GS_OK;
}

/* Even after a failure, gs_dataset_free(d) frees everything. */
gs_status gs_folder_set_load(const char *where, gs_split split, const gs_folder_options *o, gs_dataset *d) {
    if (o->size < 0 || o->size > GS_FOLDER_MOST)
        return gs_fail(GS_E_USAGE, "--size %d: wanted 1 to %d", o->size, GS_FOLDER_MOST);
    GS_TRY(GS_NEW(d->folder, 1, "%s", where));
    gs_folder_set *f = d->folder;
    f->scaling = GS_NOT_SCALED;
    f->size = o->size ? o->size : GS_FOLDER_SIZE;
    GS_TRY(gs_folder_list_read(where, split, &f->list));
    f->split = strrchr(f->list.folder, '/') + 1;
    if (o->skip_broken) GS_TRY(GS_NEW(f->is_broken, f->list.count, "%s", where));
    f->checksum = checksum_of(f);
    d->count = f->list.count;
    d->classes = f->list.classes.count;
    d->names = f->list.classes;
    f->list.classes = (gs_class_names){0};
    d->shape = (gs_shape){3, f->size, f->size, 0};
    snprintf(d->kind, sizeof d->kind, "pictures in %d folders", d->classes);
    f->loaders = o->loaders;
    return split == GS_TRAIN ? measure_scaling(f, d) : GS_OK;
}
