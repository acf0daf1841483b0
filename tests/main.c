#include "tests/devices.h"
#include "tests/test.h"

#include <fnmatch.h>
#include <ftw.h>
#include <math.h>
#include <signal.h>
#include <unistd.h>

enum { MAX_GROUPS = 256 };
static struct {
    const char *name;
    const struct CMUnitTest *tests;
    size_t count;
} groups[MAX_GROUPS];
static size_t group_count;

void gs_test_register(const char *group, const struct CMUnitTest *tests, size_t count) {
    if (group_count == MAX_GROUPS) gs_bug("more than %d groups of tests", MAX_GROUPS);
    groups[group_count].name = group;
    groups[group_count].tests = tests;
    groups[group_count++].count = count;
}

void gs_test_near(double got, double want, double absolute, double relative, const char *what,
                  const char *file, int line) {
    if (fabs(got - want) <= absolute + relative * fabs(want)) return;
    print_error("%s is %.9g, wanted %.9g within %g + %g * |wanted|: off by %g\n", what, got, want, absolute,
                relative, fabs(got - want));
    _fail(file, line);
}

void gs_test_say_skipped(const char *format, ...) {
    char why[300];
    va_list args;
    va_start(args, format);
    vsnprintf(why, sizeof why, format, args);
    va_end(args);
    print_message("           left out: %s\n", why);
}

static int stderr_before = -1;
static FILE *caught;

void gs_test_catch_stderr(void) {
    fflush(stderr);
    caught = tmpfile();
    stderr_before = dup(STDERR_FILENO);
    if (!caught || stderr_before < 0 || dup2(fileno(caught), STDERR_FILENO) < 0)
        gs_bug("standard error cannot be caught");
}

char *gs_test_caught(void) {
    fflush(stderr);
    dup2(stderr_before, STDERR_FILENO);
    close(stderr_before);
    fseek(caught, 0, SEEK_END);
    const long size = ftell(caught);
    char *text = calloc(1, (size_t)size + 1);
    rewind(caught);
    if (!text || fread(text, 1, (size_t)size, caught) != (size_t)size)
        gs_bug("what was caught cannot be read");
    fclose(caught);
    return text;
}

static char folder[256];
static int folders;

static int remove_one(const char *path, const struct stat *s, int type, struct FTW *ftw) {
    (void)s, (void)type, (void)ftw;
    return remove(path);
}

static void remove_folder(void) {
    if (folder[0]) nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

const char *gs_test_folder(void) {
    static char path[300];
    if (!folder[0]) {
        const char *tmp = getenv("TMPDIR");
        snprintf(folder, sizeof folder, "%s/gradsum-test-XXXXXX", tmp && *tmp ? tmp : "/tmp");
        if (!mkdtemp(folder)) gs_bug("cannot make %s", folder);
        atexit(remove_folder);
    }
    snprintf(path, sizeof path, "%s/%d", folder, folders++);
    if (mkdir(path, 0700) != 0) gs_bug("cannot make %s", path);
    return path;
}

const char *gs_test_source(const char *relative) {
    static char path[1024];
    snprintf(path, sizeof path, "%s/%s", GS_SOURCE_DIR, relative);
    return path;
}

/* Does a name chosen on the command line, of a group or with * of tests, mean this one? */
static bool means(const char *chosen, const char *group, const char *test) {
    if (strchr(chosen, '*')) return fnmatch(chosen, test, 0) == 0;
    return strcmp(chosen, group) == 0 || strcmp(chosen, test) == 0;
}

int main(int argc, char **argv) {
    /* The programs that tests start are to hear these signals, even where nohup or `make test &` started this one. */
    const int signals[] = {SIGHUP, SIGINT, SIGQUIT};
    for (int i = 0; i < 3; i++) signal(signals[i], SIG_DFL);
    gs_cl_choose_settings(true);
    setenv("GRADSUM_CHECK", "1", 0); /* runs check their communication, unless the environment says no */
    static struct CMUnitTest all[4096];
    size_t count = 0;
    bool *found = calloc((size_t)argc, sizeof *found);
    if (!found) gs_bug("no memory");
    for (size_t g = 0; g < group_count; g++)
        for (size_t i = 0; i < groups[g].count; i++) {
            bool wanted = argc == 1;
            for (int a = 1; a < argc; a++)
                if (means(argv[a], groups[g].name, groups[g].tests[i].name)) wanted = found[a] = true;
            if (!wanted) continue;
            if (count == sizeof all / sizeof *all) gs_bug("too many tests");
            all[count++] = groups[g].tests[i];
        }
    for (int a = 1; a < argc; a++) {
        if (found[a]) continue;
        fprintf(stderr, "gradsum-test: no group and no test is called '%s'; choose one of:", argv[a]);
        for (size_t g = 0; g < group_count; g++) fprintf(stderr, " %s", groups[g].name);
        fputc('\n', stderr);
        return 2;
    }
    free(found);
    return _cmocka_run_group_tests("gradsum", all, count, NULL, gs_test_close_devices) != 0;
}
