#include "tests/test.h"

#include <ftw.h>
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

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
