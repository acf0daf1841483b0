#include "lessons/grade/output.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- file names ---- */

/* Turns a student's name into a file name for any file system: "b%C3%B6b". It is never an option, hidden or a path. */
static void file_name(const char *student, char *name, size_t size) {
    size_t used = 0;
    for (const char *c = student; *c && used + 4 < size; c++) {
        bool plain = isalnum((unsigned char)*c) || strchr("_@+", *c) || (used > 0 && strchr("-. ", *c));
        used += (size_t)snprintf(name + used, size - used, plain ? "%c" : "%%%02X", (unsigned char)*c);
    }
    name[used] = '\0';
}

/* Some file systems treat Alice.json and alice.json as one file: the second becomes alice-2.json. */
static void unique_name(gs_marks_output *o, const char *student, char *name, size_t size) {
    enum { LONGEST = 200 };
    char begin[LONGEST], key[LONGEST + 24];
    file_name(student, begin, sizeof begin);
    for (int n = 1;; n++) {
        snprintf(key, sizeof key, n == 1 ? "%s" : "%s-%d", begin, n);
        snprintf(name, size, "%s%s", key, o->format->extension);
        for (char *c = key; *c; c++) *c = (char)tolower((unsigned char)*c);
        if (!cJSON_HasObjectItem(o->names, key)) break;
    }
    cJSON_AddTrueToObject(o->names, key);
}

/* ---- output ---- */

static FILE *file_of(const gs_marks_output *o) {
    return o->file.file ? o->file.file : stdout;
}

static gs_status open_folder(const gs_marks_output *o, int students) {
    if (!o->path && students > 1)
        return gs_fail(GS_E_USAGE, "--format %s writes a file for each of %d students: -o DIR is required",
                       o->format->name, students);
    struct stat s;
    if (!o->path) return GS_OK;
    bool made = gs_file_make_folders(o->path);
    if (made && stat(o->path, &s) == 0 && !S_ISDIR(s.st_mode)) made = false, errno = ENOTDIR;
    if (!made || access(o->path, W_OK) != 0)
        return gs_fail(GS_E_FILE, "cannot write into the folder %s: %s", o->path, strerror(errno));
    return GS_OK;
}

gs_status gs_marks_output_open(gs_marks_output *o, const gs_format *format, const char *path,
                               const gs_labs *labs, int students) {
    *o = (gs_marks_output){.format = format, .path = path, .labs = *labs, .names = cJSON_CreateObject()};
    if (format->a_file_each) return open_folder(o, students);
    if (path) GS_TRY(gs_file_check_target(path, GS_FILE_MARKS));
    if (path) GS_TRY(gs_file_writer_open(path, &o->file));
    if (format->begin) format->begin(file_of(o), labs);
    return GS_OK;
}

static gs_status write_one(gs_marks_output *o, const cJSON *marks) {
    char name[256], path[PATH_MAX];
    gs_file_writer w;
    unique_name(o, gs_mark_text(marks->child, "student"), name, sizeof name);
    if (snprintf(path, sizeof path, "%s/%s", o->path, name) >= (int)sizeof path)
        return gs_fail(GS_E_FILE, "cannot write %s/%s: %s", o->path, name, strerror(ENAMETOOLONG));
    GS_TRY(gs_file_check_target(path, GS_FILE_MARKS));
    GS_TRY(gs_file_writer_open(path, &w));
    o->format->student(w.file, &o->labs, marks);
    return gs_file_writer_commit(&w);
}

/* What the teacher sees while the marks are written to a file. */
static void print_progress(const cJSON *marks) {
    const cJSON *mark;
    cJSON_ArrayForEach(mark, marks) {
        const char *problem = gs_mark_text(mark, "problem");
        fprintf(stderr, "%s %s %g/%g%s%s\n", gs_mark_text(mark, "student"), gs_mark_text(mark, "lab"),
                gs_mark_number(mark, "points"), gs_mark_number(mark, "of"), *problem ? ": " : "", problem);
    }
}

gs_status gs_marks_output_student(gs_marks_output *o, const cJSON *marks) {
    if (o->path) print_progress(marks);
    if (o->path && o->format->a_file_each) return write_one(o, marks);
    o->format->student(file_of(o), &o->labs, marks);
    fflush(file_of(o));
    return GS_OK;
}

gs_status gs_marks_output_close(gs_marks_output *o, gs_status status) {
    cJSON_Delete(o->names);
    if (status == GS_OK && o->format->end) o->format->end(file_of(o));
    if (status == GS_OK && o->file.file) return gs_file_writer_commit(&o->file);
    gs_file_writer_discard(&o->file);
    return status;
}
