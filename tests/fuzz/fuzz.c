#include "fuzz.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "comm/transports.h"

void fuzz_wrong(const char *format, ...) {
    va_list args;
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    abort();
}

/* ---- bytes ---- */

uint8_t fuzz_byte(fuzz_input *in) {
    uint8_t byte = 0;
    fuzz_bytes(in, &byte, 1);
    return byte;
}

void fuzz_bytes(fuzz_input *in, void *to, size_t count) {
    size_t there = count < in->size ? count : in->size;
    if (there > 0) memcpy(to, in->data, there);
    if (there < count) memset((char *)to + there, 0, count - there);
    in->data += there;
    in->size -= there;
}

char *fuzz_text(fuzz_input *in) {
    size_t size = in->size;
    char *text = malloc(size + 1);
    if (!text) fuzz_wrong("no memory for the input");
    fuzz_bytes(in, text, size);
    text[size] = '\0';
    return text;
}

int fuzz_words(char *text, char *words[FUZZ_WORDS + 1]) {
    int count = 0;
    while (count < FUZZ_WORDS && text) words[count++] = strsep(&text, "\n");
    words[count] = NULL;
    return count;
}

/* ---- files ---- */

static char folder[PATH_MAX - 300];
static char paths[FUZZ_FILES][PATH_MAX];

static void remove_folder(void) {
    for (int i = 0; i < FUZZ_FILES; i++)
        if (*paths[i]) unlink(paths[i]);
    rmdir(folder);
}

static void make_folder(void) {
    const char *tmp = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%s/fuzz-%s", tmp ? tmp : "/tmp", program_invocation_short_name);
    if (mkdir(folder, 0700) != 0 && errno != EEXIST) fuzz_wrong("cannot create the folder %s", folder);
    atexit(remove_folder);
}

const char *fuzz_folder(const char *name, int which, const void *data, size_t size) {
    static int files[FUZZ_FILES];
    if (!*folder) make_folder();
    if (!*paths[which]) {
        snprintf(paths[which], sizeof paths[which], "%s/%s", folder, name);
        files[which] = open(paths[which], O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    }
    int file = files[which];
    if (ftruncate(file, 0) != 0 || pwrite(file, data, size, 0) != (ssize_t)size)
        fuzz_wrong("%s cannot be written", paths[which]);
    return folder;
}

const char *fuzz_file(const void *data, size_t size) {
    fuzz_folder("input", FUZZ_FILES - 1, data, size);
    return paths[FUZZ_FILES - 1];
}

/* ---- other ranks ---- */

static gs_status hear(gs_comm *c, void *to, size_t bytes) {
    fuzz_input *in = c->state;
    if (in->size == 0) return gs_fail(GS_E_PEER, "the input ends here");
    fuzz_bytes(in, to, bytes);
    return GS_OK;
}

/* Receives from every rank except this one. */
static gs_status hear_all(gs_comm *c, const void *mine, void *all, size_t bytes) {
    if (bytes == 0) return GS_OK; /* then all may be NULL */
    for (int r = 0; r < c->size; r++) {
        if (r == c->rank && mine)
            memcpy((char *)all + (size_t)r * bytes, mine, bytes);
        else if (r != c->rank)
            GS_TRY(hear(c, (char *)all + (size_t)r * bytes, bytes));
    }
    return GS_OK;
}

static gs_status fake_send(gs_comm *c, const gs_envelope *e, const void *data, size_t bytes) {
    return (void)c, (void)e, (void)data, (void)bytes, GS_OK;
}
static gs_status fake_recv(gs_comm *c, const gs_envelope *e, void *data, size_t bytes) {
    return (void)e, hear(c, data, bytes);
}
static gs_status fake_collective(gs_comm *c, const gs_call *call, const void *in, void *out) {
    bool root = c->rank == call->root;
    switch (call->operation) {
    case GS_BROADCAST:
    case GS_SCATTER:
        return root ? GS_OK : hear(c, out, gs_call_bytes_of(call, c->rank, c->size).out);
    case GS_REDUCE:
        return root ? hear(c, out, gs_call_bytes_of(call, c->rank, c->size).out) : GS_OK;
    case GS_ALL_GATHER:
    case GS_ALL_TO_ALL:
        return hear_all(c, call->operation == GS_ALL_GATHER ? in : NULL, out,
                        call->count * gs_type_size(call->type));
    case GS_GATHER:
        return root ? hear_all(c, in, out, call->count * gs_type_size(call->type)) : GS_OK;
    case GS_BARRIER:
        return GS_OK;
    default:
        return hear(c, out, gs_call_bytes_of(call, c->rank, c->size).out);
    }
}
static void fake_abort(gs_comm *c, const char *message) {
    (void)c, (void)message;
}
static void nothing(gs_comm *c) {
    (void)c; /* owned by the harness */
}

gs_comm fuzz_comm(fuzz_input *in, int rank, int size) {
    static const gs_transport fake = {
        .name = "fake",
        .send = fake_send,
        .recv = fake_recv,
        .collective = fake_collective,
        .abort = fake_abort,
        .free = nothing,
        .set_multithreaded = nothing,
    };
    return (gs_comm){.ops = &fake, .rank = rank, .size = size, .timeout = 1, .state = in};
}

/* ---- gs_bug: the linker redirects its calls here ---- */

static jmp_buf after_bug;
static bool bugs_allowed;

void __wrap_gs_bug(const char *format, ...) __attribute__((noreturn));
void __wrap_gs_bug(const char *format, ...) {
    if (bugs_allowed) longjmp(after_bug, 1);
    va_list args;
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fuzz_wrong("\n(gs_bug)");
}

void fuzz_allow_bugs(void (*call)(void *), void *context) {
    bugs_allowed = true;
    if (setjmp(after_bug) == 0) call(context);
    bugs_allowed = false;
}
