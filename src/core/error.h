/* Errors: failures that a correct program can meet.
 *
 * A function that can fail returns a gs_status. On failure it stores one sentence, which names the object, the value
 * found and the value wanted. In the same thread, gs_message() returns that sentence:
 *
 *     gs_status st = gs_dataset_load("mnist/", GS_TRAIN, &data);
 *     if (st != GS_OK) fprintf(stderr, "%s\n", gs_message());
 *
 * Programming mistakes (a shape that the caller should have checked) are not errors: gs_bug() prints and aborts. */
#pragma once

#include <stdbool.h>
#include "core/api.h"

/* Each code's name, and the sentence that gs_status_name() returns for it. */
#define GS_STATUS_LIST(X)                                                                                    \
    X(GS_OK, "success")                                                                                      \
    X(GS_E_USAGE, "wrong usage: an option, a name or a number that makes no sense")                          \
    X(GS_E_MEMORY, "out of memory")                                                                          \
    X(GS_E_FILE, "a file cannot be opened, read or written")                                                 \
    X(GS_E_FORMAT, "a file is damaged or is not what its name says")                                         \
    X(GS_E_SHAPE, "shapes do not fit together")                                                              \
    X(GS_E_MODEL, "the text of a model is wrong")                                                            \
    X(GS_E_DEVICE, "there is no such device, or it cannot be used")                                          \
    X(GS_E_OPENCL, "an OpenCL call failed")                                                                  \
    X(GS_E_PEER, "another worker was lost, or did not answer in time")                                       \
    X(GS_E_DIFFER, "the workers' weights are no longer the same")                                            \
    X(GS_E_INTERRUPTED, "stopped by a signal")                                                               \
    X(GS_E_DIVERGED, "training diverged: a loss, a weight or a logit is not finite")

typedef enum gs_status {
#define GS_ENUM(name, sentence) name,
    GS_STATUS_LIST(GS_ENUM)
#undef GS_ENUM
} gs_status;

#define GS_PRINTF(text, first) __attribute__((format(printf, text, first)))

/* Store this thread's message and return `code`, as in: return gs_fail(GS_E_FILE, "%s: ...", path, ...); */
GS_API gs_status gs_fail(gs_status code, const char *format, ...) GS_PRINTF(2, 3);

/* Prefix this thread's message with "where: " and return `code` unchanged. For GS_OK, do nothing. */
GS_API gs_status gs_context(gs_status code, const char *format, ...) GS_PRINTF(2, 3);

/* The message of this thread's last failure; "" if there was none. Valid until the next failure. */
GS_API const char *gs_message(void);

/* A failure kept for another thread (messages are per thread) or past further calls. All zero: no failure. */
typedef struct gs_error {
    gs_status status;
    char message[1024];
} gs_error;

/* If this is the first failure, store status and this thread's message. Returns status. */
gs_status gs_error_keep(gs_error *, gs_status status);

/* Is e the cause, rather than `other`? Yes if only e is a failure, or if both are and only `other` is a lost peer. */
static inline bool gs_error_is_cause(const gs_error *e, const gs_error *other) {
    return e->status != GS_OK &&
           (other->status == GS_OK || (other->status == GS_E_PEER && e->status != GS_E_PEER));
}

/* Fail again with the stored failure, if there is one. */
gs_status gs_error_again(const gs_error *);

/* The general sentence for a code, such as "out of memory". */
GS_API const char *gs_status_name(gs_status code);

/* The plural ending for a noun after the number n, for messages: gs_fail(..., "%zu sample%s in %d batch%s", n, gs_s(n),
 * b, gs_es(b)). */
const char *gs_s(unsigned long long n);
const char *gs_es(unsigned long long n);

/* A programming mistake: print "gradsum: bug: ..." and abort. Never for a mistake that a user can make. */
void gs_bug(const char *format, ...) GS_PRINTF(1, 2) __attribute__((noreturn));

/* Return from the calling function if `call` fails, passing the status on. */
#define GS_TRY(call)                                                                                         \
    do {                                                                                                     \
        gs_status gs_try_status = (call);                                                                    \
        if (gs_try_status != GS_OK) return gs_try_status;                                                    \
    } while (0)

/* Allocates `count` + 1 zeroed elements, and sets `pointer` to them; free it with free. GS_E_MEMORY: "no memory for ",
 * followed by the text of the remaining arguments: GS_NEW(sum, n, "a sum of %zu floats", n). */
#define GS_NEW(pointer, count, ...)                                                                          \
    (((pointer) = calloc((size_t)(count) + 1, sizeof *(pointer)))                                            \
         ? GS_OK                                                                                             \
         : (gs_fail(GS_E_MEMORY, "no memory for " __VA_ARGS__), GS_E_MEMORY))
