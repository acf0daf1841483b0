#include "lessons/grade/hand_ins.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
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
    all->count++; /* even if memory ran out: it is freed with the list */
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

/* Why the path is not the expected file or folder, as words to follow its name, or "". */
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

static size_t digits_at(const char *text) {
    return strspn(text, "0123456789");
}

/* The prefix that Canvas adds to a file's name: "lastFirst_", possibly "LATE_", "4711_" for the student, "9988_".
 * Returns the prefix's length and sets *student to the length of the student's part; 0: there is no prefix. */
static size_t canvas_prefix(const char *name, size_t *student) {
    const size_t who = strcspn(name, "_");
    const char *at = name + who + (name[who] == '_');
    if (strncasecmp(at, "LATE_", 5) == 0) at += 5;
    const size_t id = digits_at(at), part = id > 0 && at[id] == '_' ? digits_at(at + id + 1) : 0;
    *student = who;
    return who > 0 && part > 0 && at[id + 1 + part] == '_' ? (size_t)(at - name) + id + part + 2 : 0;
}

/* Accepts "", ".c" and ".cl", possibly after "-1", " (1)" or the like, which a later attempt's name contains. */
static bool ends_so(const char *rest, bool *file, int *attempt) {
    const size_t sign = strspn(rest, " -_("), digits = digits_at(rest + sign);
    *attempt = 0;
    if (sign > 0 && digits > 0 && digits < 9) {
        *attempt = atoi(rest + sign);
        rest += sign + digits;
        rest += *rest == ')';
    }
    *file = *rest == '.';
    return !*rest || strcasecmp(rest, ".c") == 0 || strcasecmp(rest, ".cl") == 0;
}

/* Finds "07" in "07", "lab-07", "lab-07.c" and "Lab 7 (1).c", after Canvas's prefix, and with `tree` in
 * "07-all-reduce". False for other names. */
static bool lab_of(const char *name, bool tree, char lab[3], bool *file, int *attempt) {
    size_t student;
    *file = false;
    *attempt = 0;
    if (!tree) name += canvas_prefix(name, &student);
    const bool word = !tree && strncasecmp(name, "lab", 3) == 0;
    const char *number = word ? name + 3 + strspn(name + 3, " -_") : name;
    const size_t digits = digits_at(number);
    if (digits != 2 && !(word && digits == 1)) return false;
    snprintf(lab, 3, "%s%.*s", digits == 1 ? "0" : "", (int)digits, number);
    if (!word) return number[2] == (tree ? '-' : '\0');
    return ends_so(number + digits, file, attempt);
}

/* Is it "lab.c", "LAB.CL", "lab (1).c", or another name for a file of this lab? */
static bool is_file_of(const char *name, const char *lab, int *attempt) {
    char own[3];
    bool file;
    if (lab_of(name, false, own, &file, attempt)) return file && strcmp(own, lab) == 0;
    return strncasecmp(name, "lab", 3) == 0 && ends_so(name + 3, &file, attempt) && file;
}

/* Adds a lab. `what`: the name in the student's folder. Of two attempts the newer one counts; otherwise a lab that is
 * already in the list is marked as handed in twice. */
static gs_status add_lab(gs_hand_ins *all, const char *student, const char *lab, const char *path,
                         const char *what, int attempt, const char *problem) {
    for (int i = all->count - 1; i >= 0 && all->list[i].who == all->students; i--) {
        gs_hand_in *h = &all->list[i];
        if (strcmp(h->lab, lab) != 0) continue;
        if (attempt < h->attempt) return GS_OK;
        if (attempt > h->attempt) {
            free(h->path);
            h->path = strdup(path);
            h->attempt = attempt;
            snprintf(h->problem, sizeof h->problem, "%s", problem);
            return h->path ? GS_OK : no_memory();
        }
        *h->problem = '\0';
        gs_append(h->problem, sizeof h->problem,
                  "handed in more than once, the last time as %s: hand in one file", what);
        return GS_OK;
    }
    GS_TRY(add(all, student, lab, path, problem));
    all->list[all->count - 1].attempt = attempt;
    return GS_OK;
}

/* Finds a lab's file in the lab's folder: the newest, and lab.cl before lab.c. False: there is none. */
static bool find_file(const char *folder, const char *lab, char *name, size_t size, int *attempt) {
    int best = -1, number;
    DIR *d = opendir(folder);
    for (const struct dirent *e; d && (e = readdir(d));) {
        if (!is_file_of(e->d_name, lab, &number)) continue;
        const int rank = 2 * number + (strchr("lL", e->d_name[strlen(e->d_name) - 1]) != NULL);
        if (rank < best || (rank == best && strcmp(e->d_name, name) > 0)) continue;
        best = rank;
        *attempt = number;
        snprintf(name, size, "%s", e->d_name);
    }
    if (d) closedir(d);
    return best >= 0;
}

/* Adds a file lab-NN.c, or the lab.c or lab.cl in a folder `name`. */
static gs_status add_name(gs_hand_ins *all, const char *student, const char *folder, const char *name,
                          const char *lab, bool is_folder, int attempt) {
    char path[4900], what[600], inside[300], problem[900] = "";
    snprintf(path, sizeof path, "%s/%s", folder, name);
    snprintf(what, sizeof what, "%s", name);
    const char *wrong = problem_of(path, is_folder);
    if (is_folder && !*wrong && find_file(path, lab, inside, sizeof inside, &attempt)) {
        is_folder = false;
        snprintf(what, sizeof what, "%s/%s", name, inside);
        snprintf(path, sizeof path, "%s/%s", folder, what);
        wrong = problem_of(path, false);
    }
    if (*wrong)
        snprintf(problem, sizeof problem, "%s %s", what, wrong);
    else if (is_folder)
        snprintf(problem, sizeof problem, "no lab.c in the folder %s", name);
    return add_lab(all, student, lab, path, what, attempt, problem);
}

/* The state of the search for one student's labs. */
typedef struct search {
    int found;        /* the number of labs found */
    char others[200]; /* the names of files that belong to no lab */
} search;

static void note_other(search *s, const char *name) {
    gs_append(s->others, sizeof s->others, "%s%s", *s->others ? ", " : "", name);
}

/* Finds the labs in one folder; with `tree`, in the lessons/ of a tree; with `deep` > 0, also in folders inside it. */
static gs_status find_in(gs_hand_ins *all, const char *student, const char *folder, bool tree, int deep,
                         search *s) {
    struct dirent **names;
    char lab[3], path[4900];
    bool file;
    int attempt, count = scandir(folder, &names, NULL, alphasort);
    if (count < 0) return gs_fail(GS_E_FILE, "the folder cannot be read: %s", strerror(errno));
    gs_status status = GS_OK;
    for (int i = 0; i < count; i++) {
        const char *name = names[i]->d_name;
        snprintf(path, sizeof path, "%s/%s", folder, name);
        const bool within = *name != '.' && !*problem_of(path, true);
        if (status == GS_OK && lab_of(name, tree, lab, &file, &attempt)) {
            status = add_name(all, student, folder, name, lab, tree || !file, attempt);
            s->found++;
        } else if (status == GS_OK && within && deep > 0) {
            status = find_in(all, student, path, false, deep - 1, s);
            if (status == GS_E_FILE) status = GS_OK; /* this may be only one of several folders */
        } else if (!tree && *name != '.' && !within) {
            note_other(s, name);
        }
        free(names[i]);
    }
    free(names);
    return status;
}

/* Finds one student's labs: in the folder, in the tree that it contains, or in folders inside it. */
static gs_status find_labs(gs_hand_ins *all, const char *student, const char *folder, int deep, search *s) {
    char lessons[4600];
    *s = (search){0};
    GS_TRY(find_in(all, student, folder, false, 0, s));
    snprintf(lessons, sizeof lessons, "%s/lessons", folder);
    if (s->found > 0) return GS_OK;
    if (!*problem_of(lessons, true)) return find_in(all, student, lessons, true, 0, s);
    *s->others = '\0';
    return deep > 0 ? find_in(all, student, folder, false, deep, s) : GS_OK;
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

/* Called when all labs of a student have been added; in the list, they start at number `first`. */
static gs_status end_student(gs_hand_ins *all, int first, const char *name, const char *path, const search *s,
                             const char *problem) {
    if (all->count == first) GS_TRY(add(all, name, "", path, problem));
    snprintf(all->list[first].others, sizeof all->list->others, "%s", s->others);
    all->students++;
    return GS_OK;
}

static gs_status add_student(gs_hand_ins *all, const char *folder, const char *name) {
    enum { DEEPEST = 3 };
    char path[4400];
    const int first = all->count;
    search s = {0};
    snprintf(path, sizeof path, "%s/%s", folder, name);
    const char *wrong = problem_of(path, true);
    if (strcmp(wrong, "is not a folder") == 0) return GS_OK; /* a course list, an archive, ... */
    char problem[sizeof all->list->problem] = "";
    if (*wrong) snprintf(problem, sizeof problem, "the folder %s", wrong);
    gs_status status = *wrong ? GS_OK : find_labs(all, name, path, DEEPEST, &s);
    if (status == GS_E_FILE) snprintf(problem, sizeof problem, "%s", gs_message());
    return status == GS_OK || status == GS_E_FILE ? end_student(all, first, name, path, &s, problem) : status;
}

/* Do both names belong to the same student? They do if the name and the number in Canvas's prefix agree. */
static bool same_student(const char *a, const char *b) {
    size_t who, other;
    const size_t long_a = canvas_prefix(a, &who), long_b = canvas_prefix(b, &other);
    if (long_a == 0 || long_b == 0 || who != other || strncmp(a, b, who) != 0) return false;
    a += who + 1 + (strncasecmp(a + who + 1, "LATE_", 5) == 0 ? 5 : 0);
    b += who + 1 + (strncasecmp(b + who + 1, "LATE_", 5) == 0 ? 5 : 0);
    return digits_at(a) == digits_at(b) && strncmp(a, b, digits_at(a)) == 0;
}

/* Finds the files of all students in one folder, as Canvas exports them. */
static gs_status find_flat(gs_hand_ins *all, const char *folder, struct dirent **names, int count) {
    char lab[3], student[300];
    bool file;
    int attempt;
    for (int i = 0; i < count; i++) {
        size_t who;
        bool before = canvas_prefix(names[i]->d_name, &who) == 0;
        for (int k = 0; k < i && !before; k++) before = same_student(names[k]->d_name, names[i]->d_name);
        if (before) continue;
        snprintf(student, sizeof student, "%.*s", (int)who, names[i]->d_name);
        const int first = all->count;
        search s = {0};
        for (int k = i; k < count; k++) {
            const char *name = names[k]->d_name;
            if (!same_student(names[i]->d_name, name)) continue;
            if (lab_of(name, false, lab, &file, &attempt) && file)
                GS_TRY(add_name(all, student, folder, name, lab, false, attempt));
            else
                note_other(&s, name);
        }
        GS_TRY(end_student(all, first, student, folder, &s, ""));
    }
    return GS_OK;
}

/* Is it such a folder? A single lab file name is enough. */
static bool is_flat(struct dirent **names, int count) {
    char lab[3];
    size_t who;
    bool file;
    int attempt;
    for (int i = 0; i < count; i++)
        if (canvas_prefix(names[i]->d_name, &who) > 0 &&
            lab_of(names[i]->d_name, false, lab, &file, &attempt) && file)
            return true;
    return false;
}

static gs_status find_students(gs_hand_ins *all, const char *folder, struct dirent **names, int count) {
    char name[256];
    search s = {0};
    const int before = all->count;
    if (is_flat(names, count))
        GS_TRY(find_flat(all, folder, names, count));
    else
        GS_TRY(find_labs(all, last_name(folder, name, sizeof name), folder, 0, &s));
    if (s.found > 0) return end_student(all, before, name, folder, &s, "");
    for (int i = 0; i < count; i++)
        if (names[i]->d_name[0] != '.') GS_TRY(add_student(all, folder, names[i]->d_name));
    if (all->count > before) return GS_OK;
    search files = {0};
    for (int i = 0; i < count; i++)
        if (names[i]->d_name[0] != '.') note_other(&files, names[i]->d_name);
    return gs_fail(GS_E_FILE,
                   "%s holds no hand-ins: wanted a folder for each student, with NN/lab.c or lab-NN.c%s%s",
                   folder, *files.others ? "; found " : "", files.others);
}

gs_status gs_hand_ins_find(const char *folder, gs_hand_ins *all) {
    struct dirent **names;
    if (strlen(folder) > 4000)
        return gs_fail(GS_E_FILE, "the name of a folder has %zu letters", strlen(folder));
    int count = scandir(folder, &names, NULL, alphasort);
    if (count < 0) return gs_fail(GS_E_FILE, "cannot read the folder %s: %s", folder, strerror(errno));
    gs_status status = find_students(all, folder, names, count);
    for (int i = 0; i < count; i++) free(names[i]);
    free(names);
    return status;
}

/* ---- copying a file ---- */

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
        open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC); /* O_NONBLOCK: a pipe must not block us */
    if (from < 0) return gs_fail(GS_E_FILE, "cannot read %s: %s", path, strerror(errno));
    gs_status status = copy(from, path, to);
    close(from);
    return status;
}
