#include "data/folder_set.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include "core/c_locale.h"
#include "core/memory.h"
#include "core/text.h"

/* Pictures that are not read. */
static const char *const other_ends[] = {".webp", ".bmp", ".tif", ".tiff", ".gif", ".avif", ".heic"};
enum { OTHERS = sizeof other_ends / sizeof *other_ends };

/* The names in one folder, sorted. */
typedef struct entries {
    char **name;
    size_t count, room, others[OTHERS];
} entries;

static bool is_folder(const char *path) {
    struct stat s;
    return stat(path, &s) == 0 && S_ISDIR(s.st_mode);
}

/* Which of `ends` the name has, in small letters or capitals of ASCII, in any locale; -1: none. */
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

/* Also through a link, and where the file system does not say what an entry is. */
static bool entry_is_folder(const char *folder, const struct dirent *e) {
    char path[8192];
    if (e->d_type != DT_LNK && e->d_type != DT_UNKNOWN) return e->d_type == DT_DIR;
    return snprintf(path, sizeof path, "%s/%s", folder, e->d_name) < (int)sizeof path && is_folder(path);
}

static void free_entries(entries *all) {
    for (size_t i = 0; i < all->count; i++) free(all->name[i]);
    free(all->name);
    *all = (entries){0};
}

static int by_name(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static gs_status read_entries(DIR *d, const char *folder, bool folders, entries *all) {
    for (;;) {
        errno = 0;
        const struct dirent *e = readdir(d);
        if (!e && errno) return gs_fail(GS_E_FILE, "cannot read the folder %s: %s", folder, strerror(errno));
        if (!e) return GS_OK;
        if (e->d_name[0] == '.' || strcmp(e->d_name, "__MACOSX") == 0)
            continue; /* a .zip's, with no pictures */
        const int other = folders ? -1 : ending_of(e->d_name, other_ends, OTHERS);
        if (other >= 0) all->others[other]++;
        if (folders ? !entry_is_folder(folder, e) : !is_picture(e->d_name)) continue;
        if (!gs_grow(&all->name, all->count, &all->room, sizeof *all->name) ||
            !(all->name[all->count] = strdup(e->d_name)))
            return gs_fail(GS_E_MEMORY, "%s: no memory for the names of its files", folder);
        all->count++;
    }
}

/* The folders in `folder`, or its pictures. To be freed, also on failure. */
static gs_status list(const char *folder, bool folders, entries *all) {
    *all = (entries){0};
    DIR *d = opendir(folder);
    if (!d) return gs_fail(GS_E_FILE, "cannot read the folder %s: %s", folder, strerror(errno));
    gs_status status = read_entries(d, folder, folders, all);
    closedir(d);
    if (status == GS_OK && all->count > 1) qsort(all->name, all->count, sizeof *all->name, by_name);
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
    entries pictures;
    const bool has = list(folder, false, &pictures) == GS_OK && pictures.count > 0;
    free_entries(&pictures);
    return has;
}

/* Has it class folders? */
static bool has_classes(const char *folder) {
    char path[8192];
    entries folders;
    bool has = false;
    if (list(folder, true, &folders) != GS_OK) folders.count = 0;
    for (size_t i = 0; i < folders.count && !has; i++)
        has = snprintf(path, sizeof path, "%s/%s", folder, folders.name[i]) < (int)sizeof path &&
              has_pictures(path);
    free_entries(&folders);
    return has;
}

/* "set/train/" -> "set"; "train" -> "."; false: its name is none of a split's. */
static bool parent_of_split(const char *where, char *parent, size_t size) {
    const char *const names[] = {"train", "val", "test"};
    if (snprintf(parent, size, "%s", where) >= (int)size) return false;
    size_t end = strlen(parent);
    while (end > 1 && parent[end - 1] == '/') parent[--end] = 0;
    char *slash = strrchr(parent, '/'), *name = slash ? slash + 1 : parent;
    for (int i = 0; i < 3; i++) {
        if (strcmp(name, names[i]) != 0) continue;
        if (!slash) snprintf(parent, size, ".");
        if (slash) slash[slash == parent] = 0;
        return true;
    }
    return false;
}

gs_status gs_folder_explain(const char *where) {
    char parent[4096];
    if (has_classes(where) && parent_of_split(where, parent, sizeof parent))
        return gs_fail(GS_E_FILE,
                       "%s has the class folders of one split; wanted the folder that train and val are in: "
                       "--data %s",
                       where, parent);
    if (!has_classes(where) && !has_pictures(where)) return GS_OK;
    return gs_fail(GS_E_FILE,
                   "%s has pictures, but no folders train and val; wanted %s/train/CLASS/*.jpg and "
                   "%s/val/CLASS/*.jpg",
                   where, where, where);
}

/* ---- the list of one split ---- */

typedef struct builder {
    gs_folder_list *list;
    size_t files_room, names_used, names_room, others[OTHERS];
} builder;

static gs_status add_file(builder *b, const char *class, const char *name, int32_t label) {
    gs_folder_list *l = b->list;
    const size_t bytes = strlen(class) + strlen(name) + 2;
    while (b->names_used + bytes > b->names_room)
        if (!gs_grow(&l->names, b->names_room, &b->names_room, 1))
            return gs_fail(GS_E_MEMORY, "%s: no memory for the names of %zu files", l->folder, l->count);
    if (!gs_grow(&l->files, l->count, &b->files_room, sizeof *l->files))
        return gs_fail(GS_E_MEMORY, "%s: no memory for a list of %zu files", l->folder, l->count);
    l->files[l->count++] = (gs_folder_file){b->names_used, label};
    snprintf(l->names + b->names_used, bytes, "%s/%s", class, name);
    b->names_used += bytes;
    return GS_OK;
}

/* In train each class must have pictures. */
static gs_status none_in_class(const char *folder, const char *class, const char *path) {
    entries inside;
    gs_status status = list(path, true, &inside);
    if (status == GS_OK && inside.count > 0)
        status = gs_fail(
            GS_E_FORMAT,
            "%s: the class folder %s has no .jpg, .jpeg, .jfif or .png, but a folder %s: pictures are looked "
            "for in the class folder itself",
            folder, gs_printable(class), gs_printable(inside.name[0]));
    else if (status == GS_OK)
        status = gs_fail(GS_E_FORMAT, "%s: the class folder %s has no .jpg, .jpeg, .jfif or .png", folder,
                         gs_printable(class));
    free_entries(&inside);
    return status;
}

static gs_status add_class(builder *b, const char *class, int32_t label, bool may_be_empty) {
    char path[8192];
    entries files;
    const char *folder = b->list->folder;
    if (snprintf(path, sizeof path, "%s/%s", folder, class) >= (int)sizeof path)
        return gs_fail(GS_E_FILE, "%s/%s: the path is too long", folder, gs_printable(class));
    gs_status status = list(path, false, &files);
    for (size_t i = 0; i < files.count && status == GS_OK; i++)
        status = add_file(b, class, files.name[i], label);
    size_t others = 0;
    for (int k = 0; k < OTHERS; k++) {
        others += files.others[k];
        b->others[k] += files.others[k];
    }
    if (status == GS_OK && files.count == 0 && !may_be_empty && others > 0)
        status =
            gs_fail(GS_E_FORMAT,
                    "%s: the class folder %s has %zu picture%s, but no .jpg, .jpeg, .jfif or .png; convert "
                    "them to JPEG or PNG",
                    folder, gs_printable(class), others, gs_s(others));
    else if (status == GS_OK && files.count == 0 && !may_be_empty)
        status = none_in_class(folder, class, path);
    free_entries(&files);
    return status;
}

static gs_status no_classes(const char *folder) {
    entries loose;
    gs_status status = list(folder, false, &loose);
    if (status == GS_OK)
        status = gs_fail(GS_E_FORMAT, "%s has no class folders%s; wanted %s/CLASS/*.jpg", folder,
                         loose.count > 0 ? ", but pictures that lie in no class" : "", folder);
    free_entries(&loose);
    return status;
}

/* The files are in the order of their labels. */
static void name_absent(gs_folder_list *l, const entries *classes) {
    size_t file = 0, absent = 0, first = 0;
    for (size_t c = 0; c < classes->count; c++) {
        while (file < l->count && (size_t)l->files[file].label < c) file++;
        if (file < l->count && (size_t)l->files[file].label == c) continue;
        if (absent++ == 0) first = c;
    }
    if (absent > 0) gs_append(l->absent, sizeof l->absent, "%s", gs_printable(classes->name[first]));
    if (absent > 1)
        gs_append(l->absent, sizeof l->absent, " and %zu other class%s", absent - 1, absent > 2 ? "es" : "");
}

static gs_status add_classes(builder *b, const entries *classes, const entries *own, gs_split split) {
    for (size_t i = 0; i < own->count; i++) {
        char **at = classes->name ? bsearch(&own->name[i], classes->name, classes->count,
                                            sizeof *classes->name, by_name)
                                  : NULL;
        if (!at)
            return gs_fail(GS_E_FORMAT, "%s has a class %s, which the folder train beside it does not have",
                           b->list->folder, gs_printable(own->name[i]));
        GS_TRY(add_class(b, own->name[i], (int32_t)(at - classes->name), split == GS_TEST));
    }
    char *left_out = b->list->left_out;
    const size_t room = sizeof b->list->left_out;
    for (int k = 0; k < OTHERS; k++)
        if (b->others[k] > 0)
            gs_append(left_out, room, "%s%zu %s", *left_out ? ", " : "", b->others[k], other_ends[k]);
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
    entries classes, own = {0};
    builder b = {.list = out};
    gs_status status = list(train, true, &classes);
    if (status == GS_OK && classes.count == 0) status = no_classes(train);
    if (status == GS_OK && split == GS_TEST) status = list(out->folder, true, &own);
    if (status == GS_OK && split == GS_TEST && own.count == 0) status = no_classes(out->folder);
    if (status == GS_OK) status = add_classes(&b, &classes, split == GS_TEST ? &own : &classes, split);
    if (status == GS_OK) out->classes = (gs_class_names){(int)classes.count, classes.name};
    if (status != GS_OK) free_entries(&classes);
    free_entries(&own);
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
    l->files = NULL;
    l->names = NULL;
    l->count = 0;
}
