#include "data/folder_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "core/text.h"
#include "data/folder_set.h"
#include "data/resize.h"
#include "data/view.h"
#include "io/picture.h"

enum { PATH_SIZE = 8192 };

struct gs_folder_tools {
    gs_picture_reader *reader;
    gs_resizer resizer;
    unsigned char *file, *picture; /* bytes of the file; a sample before it is changed */
    size_t file_room, picture_room;
};

void gs_folder_tools_free(void *of) {
    gs_folder_tools *t = of;
    if (!t) return;
    gs_picture_reader_free(t->reader);
    gs_resizer_free(&t->resizer);
    free(t->file);
    free(t->picture);
    free(t);
}

gs_status gs_folder_tools_create(void **out) {
    gs_folder_tools *t = *out = calloc(1, sizeof *t);
    if (!t) return gs_fail(GS_E_MEMORY, "no memory for a loader");
    gs_status status = gs_picture_reader_create(&t->reader);
    if (status == GS_OK) return GS_OK;
    gs_folder_tools_free(t);
    *out = NULL;
    return status;
}

static bool make_room(unsigned char **memory, size_t *room, size_t bytes) {
    if (bytes <= *room) return true;
    free(*memory);
    *memory = malloc(bytes);
    *room = *memory ? bytes : 0;
    return *memory != NULL;
}

/* Messages here leave the name out: gs_folder_decode puts it before them. */
static gs_status read_all(int fd, unsigned char *to, size_t *bytes) {
    size_t got = 0;
    while (got < *bytes) {
        const ssize_t n = read(fd, to + got, *bytes - got);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return gs_fail(GS_E_FILE, "cannot be read: %s", strerror(errno));
        if (n == 0) break; /* it has become shorter */
        got += (size_t)n;
    }
    *bytes = got;
    return GS_OK;
}

static gs_status read_file(const char *path, gs_folder_tools *t, size_t *bytes) {
    struct stat s;
    const int fd =
        open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC); /* waits for nothing: io/read.c */
    if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM))
        return gs_fail(GS_E_MEMORY, "cannot be opened: %s", strerror(errno)); /* not the file's fault */
    gs_status status = GS_OK;
    if (fd < 0 || fstat(fd, &s) != 0)
        status = gs_fail(GS_E_FILE, "cannot be read: %s", strerror(errno));
    else if (!S_ISREG(s.st_mode))
        status = gs_fail(GS_E_FILE, "cannot be read: it is %s",
                         S_ISDIR(s.st_mode) ? "a folder" : "no regular file");
    else if (s.st_size > GS_FOLDER_FILE)
        status = gs_fail(GS_E_FORMAT, "the file has %lld bytes; at most %d are allowed", (long long)s.st_size,
                         GS_FOLDER_FILE);
    else if (!make_room(&t->file, &t->file_room, (size_t)s.st_size + 1))
        status = gs_fail(GS_E_MEMORY, "no memory for a file of %lld bytes", (long long)s.st_size);
    *bytes = status == GS_OK ? (size_t)s.st_size : 0;
    if (status == GS_OK) status = read_all(fd, t->file, bytes);
    if (fd >= 0) close(fd);
    return status;
}

unsigned char *gs_folder_room(gs_folder_tools *t, size_t bytes) {
    return make_room(&t->picture, &t->picture_room, bytes) ? t->picture : NULL;
}

/* Which part of the file's picture is wanted. */
static gs_view view_of(int size, const gs_wanted *w, size_t sample, int width, int height) {
    if (!w || !w->augment || !w->augment->resized_crop) return gs_view_centre(width, height, size);
    return gs_view_resized(width, height, size, w->seed, w->epoch, sample);
}

static gs_status decode(gs_folder_tools *t, const char *path, int size, const gs_wanted *w, size_t sample,
                        unsigned char *out) {
    const unsigned char *rgb;
    size_t bytes = 0;
    int width, height, small_width, small_height;
    GS_TRY(read_file(path, t, &bytes));
    GS_TRY(gs_picture_begin(t->reader, t->file, bytes, &width, &height));
    const gs_view whole = view_of(size, w, sample, width, height);
    GS_TRY(gs_picture_decode(t->reader, gs_view_shrink(&whole), &rgb, &small_width, &small_height));
    const gs_view view = gs_view_of_small(&whole, width, height, small_width, small_height);
    if (gs_resize(&t->resizer, rgb, small_width, view.across, view.down, size, out)) return GS_OK;
    return gs_fail(GS_E_MEMORY, "no memory to make it %d x %d", size, size);
}

gs_status gs_folder_decode(gs_folder_tools *t, const gs_folder_list *list, size_t i, int size,
                           const gs_wanted *w, size_t sample, unsigned char *out) {
    char path[PATH_SIZE], shown[700];
    const bool fits = gs_folder_path(list, i, path, sizeof path);
    gs_status status =
        fits ? decode(t, path, size, w, sample, out) : gs_fail(GS_E_FILE, "the path is too long");
    return gs_context(status, "%s, file %zu of %zu", gs_printable_into(shown, sizeof shown, path, ""), i + 1,
                      list->count);
}
