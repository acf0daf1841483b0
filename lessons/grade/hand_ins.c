#include "lessons/grade/hand_ins.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "core/text.h"

static gs_status no_memory(void) {
    return gs_fail(GS_E_MEMORY, "no memory for a list of hand-ins");
}

/* ---- the list ---- */

static gs_status add(gs_hand_ins *all, const char *student, const char *lab, const char *path,
                     const char *problem) {
    if (all->count == all->room) {
        int room = all->room ? 2 * all->room : 64;
        gs_hand_in *list = realloc(all->list, (size_t)room * sizeof *list);
        if (!list) return no_memory();
        all->list = list;
        all->room = room;
    }
    gs_hand_in *h = &all->list[all->count];
    *h = (gs_hand_in){.who = all->students, .student = strdup(student), .path = strdup(path)};
    snprintf(h->lab, sizeof h->lab, "%s", lab);
    snprintf(h->problem, sizeof h->problem, "%s", problem);
    all->count++; /* also without memory: it is freed with the list */
    return h->student && h->path ? GS_OK : no_memory();
}

void gs_hand_ins_free(gs_hand_ins *all) {
    for (int i = 0; i < all->count; i++) {
        free(all->list[i].student);
        free(all->list[i].path);
    }
    free(all->list);
    *all = (gs_hand_ins){0};
}

/* ---- one student ---- */

/* Why a thing is not what is wanted, after its name; or "". */
static const char *problem_of(const char *path, bool folder) {
    static _Thread_local char why[80];
    struct stat s;
    bool there = lstat(path, &s) == 0;
    if (there && S_ISLNK(s.st_mode)) return folder ? "is a link, not a folder" : "is a link, not a file";
    if (there && folder && !S_ISDIR(s.st_mode)) return "is not a folder";
    if (there && !folder && !S_ISREG(s.st_mode)) return "is not a file";
    if (there && faccessat(AT_FDCWD, path, folder ? R_OK | X_OK : R_OK, AT_EACCESS) == 0) return "";
    snprintf(why, sizeof why, "cannot be read: %s", strerror(errno));
    return why;
}

static bool is_there(const char *path) {
    struct stat s;
    return lstat(path, &s) == 0;
}

static bool two_digits(const char *text) {
    return isdigit((unsigned char)text[0]) && isdigit((unsigned char)text[1]);
}

/* "07" in "07" and "lab-07.c", and where `tree` in "07-all-reduce"; false for other names. */
static bool lab_of(const char *name, bool tree, char lab[3]) {
    bool file = !tree && strncmp(name, "lab-", 4) == 0;
    const char *number = file ? name + 4 : name;
    if (!two_digits(number)) return false;
    snprintf(lab, 3, "%.2s", number);
    const char *rest = number + 2;
    return file ? strcmp(rest, ".c") == 0 || strcmp(rest, ".cl") == 0 : tree ? *rest == '-' : !*rest;
}

/* `what`: the name in the student's folder. A lab that is there already becomes one that was handed in twice. */
static gs_status add_lab(gs_hand_ins *all, const char *student, const char *lab, const char *path,
                         const char *what, const char *problem) {
    for (int i = all->count - 1; i >= 0 && all->list[i].who == all->students; i--) {
        gs_hand_in *h = &all->list[i];
        if (strcmp(h->lab, lab) != 0) continue;
        *h->problem = '\0';
        gs_append(h->problem, sizeof h->problem,
                  "handed in more than once, the last time as %s: hand in one file", what);
        return GS_OK;
    }
    return add(all, student, lab, path, problem);
}

/* A file lab-NN.c, or in a folder `name` lab.c or lab.cl. */
static gs_status add_name(gs_hand_ins *all, const char *student, const char *folder, const char *name,
                          const char *lab, bool is_folder) {
    char path[4900], what[300], problem[500] = "";
    snprintf(path, sizeof path, "%s/%s", folder, name);
    snprintf(what, sizeof what, "%s", name);
    const char *wrong = problem_of(path, is_folder);
    for (int k = 0; k < 2 && is_folder && !*wrong; k++) {
        snprintf(what, sizeof what, "%s/%s", name, k == 0 ? "lab.cl" : "lab.c");
        snprintf(path, sizeof path, "%s/%s", folder, what);
        if (!is_there(path)) continue;
        is_folder = false;
        wrong = problem_of(path, false);
    }
    if (*wrong)
        snprintf(problem, sizeof problem, "%s %s", what, wrong);
    else if (is_folder)
        snprintf(problem, sizeof problem, "no lab.c in the folder %s", name);
    return add_lab(all, student, lab, path, what, problem);
}

/* The labs in one folder; with `tree` in a tree's lessons/. *found: how many. */
static gs_status find_in(gs_hand_ins *all, const char *student, const char *folder, bool tree, int *found) {
    struct dirent **names;
    char lab[3];
    int count = scandir(folder, &names, NULL, alphasort);
    *found = 0;
    if (count < 0) return gs_fail(GS_E_FILE, "the folder cannot be read: %s", strerror(errno));
    gs_status status = GS_OK;
    for (int i = 0; i < count; i++) {
        const char *name = names[i]->d_name;
        if (status == GS_OK && lab_of(name, tree, lab)) {
            status = add_name(all, student, folder, name, lab, tree || two_digits(name));
            (*found)++;
        }
        free(names[i]);
    }
    free(names);
    return status;
}

/* The labs of one student: in the folder itself, or else in the tree that it is. */
static gs_status find_labs(gs_hand_ins *all, const char *student, const char *folder, int *found) {
    char lessons[4600];
    GS_TRY(find_in(all, student, folder, false, found));
    snprintf(lessons, sizeof lessons, "%s/lessons", folder);
    return *found == 0 && !*problem_of(lessons, true) ? find_in(all, student, lessons, true, found) : GS_OK;
}

/* ---- all students ---- */

static const char *last_name(const char *folder, char *name, size_t size) {
    size_t length = strlen(folder);
    while (length > 1 && folder[length - 1] == '/') length--;
    size_t begin = length;
    while (begin > 0 && folder[begin - 1] != '/') begin--;
    snprintf(name, size, "%.*s", (int)(length - begin), folder + begin);
    return name;
}

static gs_status add_student(gs_hand_ins *all, const char *folder, const char *name) {
    char path[4400];
    int found = 0;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    const char *wrong = problem_of(path, true);
    if (strcmp(wrong, "is not a folder") == 0) return GS_OK; /* a list of the course, an archive, ... */
    char problem[sizeof all->list->problem] = "";
    if (*wrong) snprintf(problem, sizeof problem, "the folder %s", wrong);
    gs_status status = *wrong ? GS_OK : find_labs(all, name, path, &found);
    if (status == GS_E_FILE) snprintf(problem, sizeof problem, "%s", gs_message());
    if (status == GS_E_FILE || (status == GS_OK && found == 0)) status = add(all, name, "", path, problem);
    all->students++;
    return status;
}

gs_status gs_hand_ins_find(const char *folder, gs_hand_ins *all) {
    struct dirent **names;
    char name[256];
    int found;
    if (strlen(folder) > 4000)
        return gs_fail(GS_E_FILE, "the name of a folder has %zu letters", strlen(folder));
    DIR *readable = opendir(folder);
    if (!readable) return gs_fail(GS_E_FILE, "cannot read the folder %s: %s", folder, strerror(errno));
    closedir(readable);
    GS_TRY(find_labs(all, last_name(folder, name, sizeof name), folder, &found));
    if (found > 0) return all->students++, GS_OK;
    int count = scandir(folder, &names, NULL, alphasort), before = all->count;
    if (count < 0) return gs_fail(GS_E_FILE, "cannot read the folder %s: %s", folder, strerror(errno));
    gs_status status = GS_OK;
    for (int i = 0; i < count; i++) {
        if (status == GS_OK && names[i]->d_name[0] != '.')
            status = add_student(all, folder, names[i]->d_name);
        free(names[i]);
    }
    free(names);
    if (status == GS_OK && all->count == before)
        return gs_fail(GS_E_FILE,
                       "%s holds no hand-ins: wanted a folder for each student, with NN/lab.c or lab-NN.c",
                       folder);
    return status;
}

/* ---- a file ---- */

static gs_status copy(int from, const char *path, const char *to) {
    struct stat s;
    if (fstat(from, &s) != 0 || !S_ISREG(s.st_mode)) return gs_fail(GS_E_FILE, "%s is not a file", path);
    if (s.st_size > GS_HAND_IN_MOST)
        return gs_fail(GS_E_FILE, "it has %lld bytes; a lab has at most %d", (long long)s.st_size,
                       GS_HAND_IN_MOST);
    char *text = malloc(GS_HAND_IN_MOST);
    if (!text) return no_memory();
    size_t used = 0;
    ssize_t n = 1;
    while (used < GS_HAND_IN_MOST && (n = read(from, text + used, GS_HAND_IN_MOST - used)) > 0)
        used += (size_t)n;
    FILE *f = n < 0 ? NULL : fopen(to, "wb");
    bool written = f && fwrite(text, 1, used, f) == used;
    if (f && fclose(f) != 0) written = false;
    free(text);
    if (n < 0) return gs_fail(GS_E_FILE, "cannot read %s: %s", path, strerror(errno));
    return written ? GS_OK : gs_fail(GS_E_MEMORY, "cannot write the copy %s: %s", to, strerror(errno));
}

gs_status gs_hand_in_room(const char *folder, uint64_t bytes) {
    struct statvfs s;
    if (statvfs(folder, &s) != 0)
        return gs_fail(GS_E_FILE, "cannot use the folder %s: %s", folder, strerror(errno));
    const uint64_t is_free = (uint64_t)s.f_bavail * s.f_frsize;
    if (is_free >= bytes) return GS_OK;
    return gs_fail(GS_E_FILE, "%s has room for %llu MB; grading needs %llu MB", folder,
                   (unsigned long long)(is_free >> 20), (unsigned long long)(bytes >> 20));
}

gs_status gs_hand_in_copy(const char *path, const char *to) {
    int from =
        open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC); /* a pipe must not keep us waiting */
    if (from < 0) return gs_fail(GS_E_FILE, "cannot read %s: %s", path, strerror(errno));
    gs_status status = copy(from, path, to);
    close(from);
    return status;
}
