#include "tests/support/test.h"

#include <ftw.h>
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>
#include "layer/layer.h"
#include "model/model_text.h"

void gs_test_near(double got, double want, double absolute, double relative, const char *what,
                  const char *file, int line) {
    if (fabs(got - want) <= absolute + relative * fabs(want)) return;
    print_error("%s is %.9g, wanted %.9g within %g + %g * |wanted|: off by %g\n", what, got, want, absolute,
                relative, fabs(got - want));
    _fail(file, line);
}

void gs_test_has(const char *text, const char *const *part, const char *file, int line) {
    for (; *part; part++)
        if (!strstr(text, *part)) print_error("wanted '%s' in:\n%s\n", *part, text), _fail(file, line);
}

int gs_test_count(const char *text, const char *part) {
    int n = 0;
    for (const char *at = text; (at = strstr(at, part)); at += strlen(part)) n++;
    return n;
}

double gs_test_number_after(const char *text, const char *part) {
    const char *at = strstr(text, part);
    if (!at) fail_msg("no %s in %s", part, text);
    return strtod(at + strlen(part), NULL);
}

void gs_test_say_skipped(const char *format, ...) {
    char why[300];
    va_list args;
    va_start(args, format);
    vsnprintf(why, sizeof why, format, args);
    va_end(args);
    print_message("           left out: %s\n", why);
}

void gs_test_patiently(double first, const char *(*wrong)(double timeout, void *context), void *context) {
    const char *what = wrong(first, context);
    for (double timeout = 4 * first; what && timeout < 100; timeout *= 4) {
        print_message("           again, with a time-out of %g s: %s\n", timeout, what);
        what = wrong(timeout, context);
    }
    if (what) fail_msg("%s", what);
}

const char *gs_test_wrong(const char *format, ...) {
    static char text[4096];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return text;
}

static int stderr_before = -1;
static FILE *caught;

void gs_test_catch_stderr(void) {
    fflush(stderr);
    caught = tmpfile();
    stderr_before = dup(STDERR_FILENO);
    if (!caught || stderr_before < 0 || dup2(fileno(caught), STDERR_FILENO) < 0)
        gs_bug("cannot catch standard error");
}

char *gs_test_caught(void) {
    fflush(stderr);
    dup2(stderr_before, STDERR_FILENO);
    close(stderr_before);
    fseek(caught, 0, SEEK_END);
    const long size = ftell(caught);
    char *text = calloc(1, (size_t)size + 1);
    rewind(caught);
    if (!text || fread(text, 1, (size_t)size, caught) != (size_t)size) gs_bug("cannot read the caught text");
    fclose(caught);
    return gs_test_keep(text);
}

static pthread_mutex_t keeping = PTHREAD_MUTEX_INITIALIZER;
static struct kept {
    struct kept *before;
    void *memory;
} * kept; /* reachable here for the leak checker */

void *gs_test_keep(void *memory) {
    struct kept *k = malloc(sizeof *k);
    if (!k || !memory) gs_bug("no memory for a test");
    pthread_mutex_lock(&keeping);
    *k = (struct kept){kept, memory};
    kept = k;
    pthread_mutex_unlock(&keeping);
    return memory;
}

static struct owned {
    struct owned *before;
    void *thing;
    void (*end)(void *);
} * owned;

void *gs_test_own(void *thing, void (*end)(void *)) {
    struct owned *o = malloc(sizeof *o);
    if (!o || !thing) gs_bug("no memory for a test");
    pthread_mutex_lock(&keeping);
    *o = (struct owned){owned, thing, end};
    owned = o;
    pthread_mutex_unlock(&keeping);
    return thing;
}

void *gs_test_malloc(size_t bytes) {
    return gs_test_own(malloc(bytes + !bytes), free);
}

void *gs_test_calloc(size_t count, size_t bytes) {
    return gs_test_own(calloc(count + !count, bytes), free);
}

/* Ends the first entry from *at on whose thing is `thing`, or simply the first entry if `thing` is NULL. */
static void end_one(struct owned **at, const void *thing) {
    while (*at && thing && (*at)->thing != thing) at = &(*at)->before;
    struct owned *o = *at;
    if (!o) gs_bug("a test frees a thing that it does not own");
    *at = o->before;
    o->end(o->thing);
    free(o);
}

void gs_test_free(void *thing) {
    pthread_mutex_lock(&keeping);
    end_one(&owned, thing);
    pthread_mutex_unlock(&keeping);
}

const void *gs_test_mark(void) {
    return owned;
}

void gs_test_free_since(const void *mark) {
    while (owned != mark) end_one(&owned, NULL);
}

int gs_test_end(void **state) {
    (void)state;
    gs_test_free_since(NULL);
    return 0;
}

static void free_model(void *model) {
    gs_model_free(model);
}

static void free_layer(void *layer) {
    gs_layer_free(layer);
}

static void free_set(void *set) {
    gs_dataset_free(set);
}

gs_dataset *gs_test_set(gs_status made, gs_dataset **set) {
    assert_ok(made);
    return gs_test_own(*set, free_set);
}

gs_dataset *gs_test_load(const char *where, gs_split split) {
    gs_dataset *set;
    return gs_test_set(gs_dataset_load(where, split, &set), &set);
}

gs_layer *gs_test_net(const char *text) {
    gs_layer *net;
    assert_ok(gs_model_parse(text, &net));
    return gs_test_own(net, free_layer);
}

gs_model *gs_test_model_of(gs_device *d, const gs_model_config *config) {
    gs_model *m;
    assert_ok(gs_model_create(d, config, &m));
    return gs_test_own(m, free_model);
}

char *gs_test_format(const char *format, ...) {
    char *text;
    va_list args;
    va_start(args, format);
    if (vasprintf(&text, format, args) < 0) gs_bug("no memory for a test");
    va_end(args);
    return gs_test_keep(text);
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
    if (!folder[0]) {
        const char *tmp = getenv("TMPDIR");
        snprintf(folder, sizeof folder, "%s/gradsum-test-XXXXXX", tmp && *tmp ? tmp : "/tmp");
        if (!mkdtemp(folder)) gs_bug("cannot create %s", folder);
        atexit(remove_folder);
    }
    const char *path = gs_test_format("%s/%d", folder, folders++);
    if (mkdir(path, 0700) != 0) gs_bug("cannot create %s", path);
    return path;
}

FILE *gs_test_open(const char *path, const char *mode) {
    FILE *f = fopen(path, mode);
    if (!f) fail_msg("%s cannot be opened", path);
    return f;
}

const char *gs_test_source(const char *relative) {
    return gs_test_format("%s/%s", GS_SOURCE_DIR, relative);
}
