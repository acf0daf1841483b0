/* Names of files that others put into a folder: hand-ins, temporary files to remove, and files of ranks. */
#include "lessons/grade/hand_ins.c"
#include "fuzz.h"
#include "io/file.c"
#include "comm/rendezvous/folder_store.c"

#include <fcntl.h>

/* Only names of the form that io/file.c writes may count as leftovers. */
static void temporary(const char *name) {
    const char file[] = "w.st";
    char end[16], own[600];
    long pid;
    int number, used = 0;
    ending(end);
    snprintf(own, sizeof own, "%s%s", name, end);
    for (int i = 0; i < 2; i++) {
        const char *text = i ? own : name;
        bool right = is_temporary_of(text, file, end);
        if (right && (sscanf(text, "w.st.%ld-%d%n", &pid, &number, &used) != 2 || !strstr(text + used, end)))
            fuzz_wrong("'%s' was accepted as a temporary file", text);
    }
}

static void hand_in(const char *name) {
    char lab[3], last[256];
    bool file;
    int attempt;
    for (int tree = 0; tree < 2; tree++)
        if (lab_of(name, tree, lab, &file, &attempt) && (strlen(lab) != 2 || strspn(lab, "0123456789") != 2))
            fuzz_wrong("lab '%s' of '%s'", lab, name);
    last_name(name, last, sizeof last);
    if (strchr(last, '/') && strspn(last, "/") != strlen(last)) fuzz_wrong("'%s' of '%s'", last, name);
}

/* The files that ranks write before all have arrived: "rank-0"; "absent-0" from a rank that failed early; "left-0"
 * from one that is done. */
static bool is_written_by_ranks(const char *name, int size) {
    static const char *const kinds[] = {"rank", "absent", "left"};
    char own[64];
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        for (int i = 0; i < size; i++) {
            snprintf(own, sizeof own, "%s-%d", kinds[k], i);
            if (strcmp(name, own) == 0) return true;
        }
    return false;
}

/* Tests a rendezvous folder that contains one foreign file. */
static void of_a_rank(const char *name) {
    enum { SIZE = 12 };
    static char folder[200], path[600];
    const char *tmp = getenv("TMPDIR");
    gs_rendezvous r = {.rank = 0, .size = SIZE, .directory = folder, .timeout = 1};
    if (!*name || strchr(name, '/') || strcmp(name, ".") == 0 || strcmp(name, "..") == 0) return;
    snprintf(folder, sizeof folder, "%.150s/fuzz-names-%ld", tmp ? tmp : "/tmp", (long)getpid());
    snprintf(path, sizeof path, "%s/%.300s", folder, name);
    if (mkdir(folder, 0700) != 0) return;
    int f = open(path, O_WRONLY | O_CREAT, 0600);
    bool good = f >= 0 && check_folder(&r) == GS_OK;
    if (f >= 0) close(f);
    unlink(path);
    rmdir(folder);
    if (f >= 0 && good != is_written_by_ranks(name, SIZE))
        fuzz_wrong("'%s' is %s for the file of a rank", name, good ? "taken" : "not taken");
}

FUZZ(in) {
    uint8_t what = fuzz_byte(in);
    if (in->size > 255) in->size = 255;
    char *text = fuzz_text(in);
    (what % 3 == 0 ? hand_in : what % 3 == 1 ? temporary : of_a_rank)(text);
    free(text);
}
