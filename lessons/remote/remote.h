/* How the grader calls what a student wrote: in another process.
 *
 *     checker        check.c, the library, and a stub of each function of lab.c    it gives the verdict
 *     hand-in        lab.c, and of the library only what lab.c may call            it never sees an expected value
 *
 * A stub sends its arguments to the hand-in, which calls the student's function and sends back what that wrote. When
 * the student's function calls the library (a message to another rank, say), the call travels the other way, and the
 * checker makes it and counts it. So nothing that a hand-in does to its own process can change a verdict.
 *
 * Each lab lists its functions in NN/remote.c, which is compiled twice: for the checker, and with LAB_HAND_IN for
 * the hand-in. Lesson 7's is a good example. A function has a struct of its arguments and one description of how they
 * travel, which serves all four directions:
 *
 *     typedef struct { float *dx; const float *dy; size_t n; gs_status status; } relu_dx_call;
 *
 *     static void pass_relu_dx(lab_wire *w, void *arguments) {
 *         relu_dx_call *a = arguments;
 *         LAB_VALUE(w, a->n);
 *         LAB_IN(w, a->dy, a->n);         n elements: read only
 *         LAB_INOUT(w, a->dx, a->n);      n elements: what they hold goes there, what was written comes back
 *         lab_status(w, &a->status);
 *     }
 *
 * The counts of arrays come from values that were passed before them.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "core/error.h"

typedef struct lab_wire lab_wire;

/* One function that can be called over a wire. Both programs have the same list, in the same order. */
typedef struct lab_function {
    size_t size;                               /* of the struct of its arguments */
    void (*pass)(lab_wire *, void *arguments); /* how they travel */
    void (*call)(void *arguments); /* NULL in the program that does not have the function itself */
} lab_function;

/* NN/remote.c: the student's functions, from 0 on; `pass` NULL ends them. */
extern const lab_function lab_functions[];

/* A function for the member `call`: `a` points to its arguments. LAB_CALLER(call_relu_dx, relu_dx_call,
 * a->status = relu_dx(a->dx, a->dy, a->n)) */
#define LAB_CALLER(name, type, ...)                                                                          \
    static void name(void *arguments) {                                                                      \
        type *a = arguments;                                                                                 \
        __VA_ARGS__;                                                                                         \
    }

#ifdef LAB_HAND_IN
#define LAB_THEIRS(call) call /* the hand-in has this function: the student wrote it */
#define LAB_OURS(call) NULL   /* the checker has it, and the student may call it */
#else
#define LAB_THEIRS(call) NULL
#define LAB_OURS(call) call
#endif

/* Call function `index` of the list in the other program. Returns when it has returned. A hand-in that ends or breaks
 * off instead ends the checker too, with a verdict that says so. */
void lab_remote(int index, void *arguments);

/* The body of a stub: calls function `index` with arguments {...} of `type`, and returns their member `result`. */
#define LAB_ASK(index, type, result, ...)                                                                    \
    do {                                                                                                     \
        type lab_arguments = {__VA_ARGS__};                                                                  \
        lab_remote(index, &lab_arguments);                                                                   \
        return lab_arguments.result;                                                                         \
    } while (0)

/* ---- how arguments travel: for `pass` ---- */

/* A value that the caller gives; one that the callee gives back. A number that the checker gives is noted with its
 * name: where the call never returns, the student reads "called with n = 0, epoch = 1". */
void lab_value(lab_wire *, void *value, size_t bytes);
void lab_result(lab_wire *, void *value, size_t bytes);
#define LAB_VALUE(w, x) (lab_value(w, &(x), sizeof(x)), lab_note_value(w, #x, LAB_KIND_OF(x), &(x)))
#define LAB_RESULT(w, x) lab_result(w, &(x), sizeof(x))

/* LAB_VALUE for each of up to 6 values, in order. */
#define LAB_VALUES(w, ...)                                                                                   \
    LAB_SEVENTH(__VA_ARGS__, LAB_V6, LAB_V5, LAB_V4, LAB_V3, LAB_V2, LAB_VALUE)(w, __VA_ARGS__)
#define LAB_SEVENTH(a, b, c, d, e, f, values, ...) values
#define LAB_V2(w, x, ...) (LAB_VALUE(w, x), LAB_VALUE(w, __VA_ARGS__))
#define LAB_V3(w, x, ...) (LAB_VALUE(w, x), LAB_V2(w, __VA_ARGS__))
#define LAB_V4(w, x, ...) (LAB_VALUE(w, x), LAB_V3(w, __VA_ARGS__))
#define LAB_V5(w, x, ...) (LAB_VALUE(w, x), LAB_V4(w, __VA_ARGS__))
#define LAB_V6(w, x, ...) (LAB_VALUE(w, x), LAB_V5(w, __VA_ARGS__))

typedef enum lab_kind {
    LAB_NO_NUMBER,
    LAB_BOOL,
    LAB_INT,
    LAB_UNSIGNED,
    LAB_LONG,
    LAB_UNSIGNED_LONG,
    LAB_FLOAT,
    LAB_DOUBLE
} lab_kind;
#define LAB_KIND_OF(x)                                                                                       \
    _Generic((x), bool                                                                                       \
             : LAB_BOOL, int                                                                                 \
             : LAB_INT, unsigned                                                                             \
             : LAB_UNSIGNED, long                                                                            \
             : LAB_LONG, unsigned long                                                                       \
             : LAB_UNSIGNED_LONG, float                                                                      \
             : LAB_FLOAT, double                                                                             \
             : LAB_DOUBLE, default                                                                           \
             : LAB_NO_NUMBER)

/* `name` is "a->count": what follows the last arrow is noted; a name without an arrow is nobody's argument. */
void lab_note_value(lab_wire *, const char *name, lab_kind, const void *value);

/* An array, NULL or not. The hand-in gets it in memory that has not one byte more. */
void lab_array(lab_wire *, void **array, size_t bytes, bool comes_back);
#define LAB_IN(w, a, count) lab_array(w, (void **)&(a), (count) * sizeof *(a), false)
#define LAB_INOUT(w, a, count) lab_array(w, (void **)&(a), (count) * sizeof *(a), true)

/* A text, or NULL. */
void lab_pass_text(lab_wire *, const char **text);

/* The status that a function returns, with its message. */
void lab_status(lab_wire *, gs_status *);

/* True while arguments are on their way to the callee; false on the way back. For `pass` functions that put something
 * together. */
bool lab_is_request(const lab_wire *);

/* ---- the library's objects that a student's function may use ---- */

struct gs_sync;
struct gs_comm;
struct gs_mem;

/* A gs_sync or gs_comm of the checker's. The hand-in gets one that looks the same (rank, size); what is called with it
 * is called in the checker. One of each in a call. */
void lab_pass_sync(lab_wire *, struct gs_sync **);
void lab_pass_comm(lab_wire *, struct gs_comm **);

/* `count` numbers of 4 bytes at a place in a device's memory, on "cpu"; or GS_NONE. */
void lab_pass_mem(lab_wire *, struct gs_mem *, size_t count, bool comes_back);
