/* The boxes "Predict before you run" of a lesson: lessons/NN-name/predict.json.
 *
 *     [{"id": "7a", "question": "In how many rounds does the ring sum the gradients of 4 workers?",
 *       "unit": "rounds", "near": 0, "as": "number",
 *       "runs": [{"command": "gradsum step --sync ring --workers 4 --size 8 --no-pause",
 *                 "find": "^round [0-9]+ of ([0-9]+)"}],
 *       "first": "...", a command that must run before, if there is one
 *       "because": "Each chunk needs N - 1 rounds to be summed, and N - 1 to reach everyone."}, ...]
 *
 * A box of a lesson's README has the same question and commands, word for word (tests/lessons/test_lesson.c). */
#pragma once

#include <limits.h>
#include <stddef.h>
#include "core/error.h"

typedef enum gs_box_as {
    GS_BOX_NUMBER, /* the number that was found */
    GS_BOX_RATIO,  /* the second number divided by the first */
    GS_BOX_ORDER, /* is the second number less than the first, near it, or more? The three choices, in this order */
    GS_BOX_WORD, /* the word that was found: one of the choices */
    GS_BOX_SAME, /* are both texts the same? The first choice: yes; the second: no */
} gs_box_as;

enum { GS_BOX_RUNS = 2, GS_BOX_CHOICES = 8, GS_BOXES_MOST = 16 };

typedef struct gs_box {
    const char *id, *question, *because;
    const char *unit; /* of a number; "" for a pure one */
    const char *choices[GS_BOX_CHOICES];
    int choice_count; /* 0: the answer is a number */
    gs_box_as as;
    double near;  /* a number this near, in parts of the outcome, is right */
    double scale; /* of what is found: 1e-6 makes MB of bytes */
    struct {
        const char *command; /* words between spaces, or 'in quotes'; "gradsum" is this program */
        const char *find;    /* a POSIX extended expression; its first group is what is found */
    } runs[GS_BOX_RUNS];
    int run_count;
    const char *first; /* a command to run before them, or NULL */
} gs_box;

typedef struct gs_boxes {
    char lesson[3];        /* "07" */
    char title[120];       /* of its README, without "# " */
    char folder[PATH_MAX]; /* in the tree: "lessons/07-all-reduce" */
    gs_box list[GS_BOXES_MOST];
    int count;
    void *json; /* what the texts point into */
} gs_boxes;

/* The boxes of lesson `number` of the source tree `tree`. GS_E_USAGE: there is no such lesson; GS_E_FORMAT: what is
 * wrong in its predict.json. A lesson without that file has none. */
gs_status gs_boxes_read(const char *tree, int number, gs_boxes *);
void gs_boxes_free(gs_boxes *);

/* NULL: there is no such box. */
const gs_box *gs_boxes_find(const gs_boxes *, const char *id);

/* Is `text` an answer to this box? Its form as it is kept, "1250" or "ring", in `answer`. GS_E_USAGE: what is wanted.
 */
gs_status gs_box_answer(const gs_box *, const char *text, char *answer, size_t size);

/* A number as people write it: 6, 12.5, 2143288. */
void gs_box_number(double, char *text, size_t size);
