#include "lessons/grade/hand_ins.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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
    *h = (gs_hand_in){.student = strdup(student), .path = strdup(path)};
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

/* Why a thing is not what is wanted, or "". */
static const char *problem_of(const char *path, bool folder) {
    struct stat s;
    if (lstat(path, &s) != 0) return strerror(errno);
    if (S_ISLNK(s.st_mode)) return folder ? "is a link, not a folder" : "is a link, not a file";
    if (folder) return S_ISDIR(s.st_mode) ? "" : "is not a folder";
    if (!S_ISREG(s.st_mode)) return "is not a file";
    if (access(path, R_OK) != 0) return strerror(errno);
    return "";
}

static bool is_there(const char *path) {
    struct stat s;
    return lstat(path, &s) == 0;
}

/* "07" in "07" and "lab-07.c"; false for other names. */
static bool lab_of(const char *name, char lab[3]) {
    const char *number = strncmp(name, "lab-", 4) == 0 ? name + 4 : name;
    if (!isdigit((unsigned char)number[0]) || !isdigit((unsigned char)number[1])) return false;
    bool file = number != name,
         right = file ? strcmp(number + 2, ".c") == 0 || strcmp(number + 2, ".cl") == 0 : number[2] == '\0';
    memcpy(lab, number, 2);
    lab[2] = '\0';
    return right;
}

/* NN/lab.c or NN/lab.cl, from the name NN; or lab-NN.c itself. */
static gs_status add_lab(gs_hand_ins *all, const char *student, const char *folder, const char *name,
                         const char *lab) {
    char path[4600], problem[160];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    if (strncmp(name, "lab-", 4) == 0) return add(all, student, lab, path, problem_of(path, false));
    const char *wrong = problem_of(path, true);
    if (*wrong) {
        snprintf(problem, sizeof problem, "%s %s", name, wrong);
        return add(all, student, lab, path, problem);
    }
    for (int k = 0; k < 2; k++) {
        snprintf(path, sizeof path, "%s/%s/%s", folder, name, k == 0 ? "lab.cl" : "lab.c");
        if (is_there(path)) return add(all, student, lab, path, problem_of(path, false));
    }
    snprintf(problem, sizeof problem, "no lab.c in the folder %s", name);
    return add(all, student, lab, path, problem);
}

static gs_status find_labs(gs_hand_ins *all, const char *student, const char *folder, int *found) {
    struct dirent **names;
    char lab[3];
    int count = scandir(folder, &names, NULL, alphasort);
    *found = 0;
    if (count < 0) return gs_fail(GS_E_FILE, "cannot read the folder %s: %s", folder, strerror(errno));
    gs_status status = GS_OK;
    for (int i = 0; i < count; i++) {
        if (status == GS_OK && lab_of(names[i]->d_name, lab)) {
            status = add_lab(all, student, folder, names[i]->d_name, lab);
            (*found)++;
        }
        free(names[i]);
    }
    free(names);
    return status;
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
    if (*wrong) return add(all, name, "", path, wrong);
    gs_status status = find_labs(all, name, path, &found);
    if (status == GS_E_FILE) return add(all, name, "", path, gs_message());
    if (status == GS_OK && found == 0)
        return add(all, name, "", path, "nothing here: wanted NN/lab.c or lab-NN.c");
    return status;
}

gs_status gs_hand_ins_find(const char *folder, gs_hand_ins *all) {
    struct dirent **names;
    char name[256];
    int found;
    if (strlen(folder) > 4000)
        return gs_fail(GS_E_FILE, "the name of a folder has %zu letters", strlen(folder));
    GS_TRY(find_labs(all, last_name(folder, name, sizeof name), folder, &found));
    if (found > 0) return GS_OK;
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
    return written ? GS_OK : gs_fail(GS_E_FILE, "cannot copy %s to %s: %s", path, to, strerror(errno));
}

gs_status gs_hand_in_copy(const char *path, const char *to) {
    int from =
        open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC); /* a pipe must not keep us waiting */
    if (from < 0) return gs_fail(GS_E_FILE, "cannot read %s: %s", path, strerror(errno));
    gs_status status = copy(from, path, to);
    close(from);
    return status;
}
