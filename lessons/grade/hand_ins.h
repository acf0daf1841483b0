/* A folder of hand-ins: a folder for each student, in it NN/lab.c or lab-NN.c for each lab (or lab.cl, lab-NN.cl), or
 * in a folder within it; or a whole source tree, with lessons/NN-NAME/lab.c; or Canvas's files of all students,
 * lastFirst_LATE_4711_9988_lab-NN-1.c. The case of letters does not matter. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include "core/error.h"

typedef struct gs_hand_in {
    int who;           /* the student's number: others may have the same name */
    char *student;     /* the folder's name */
    char lab[3];       /* "07"; "" where a student has handed in nothing */
    char *path;        /* of the file */
    int attempt;       /* 1 for "lab-07-1.c" and "lab-07 (1).c": the newest is graded */
    char problem[400]; /* why it cannot be graded, or "" */
    char others[200];  /* of a student's first one: "x.c, notes.txt", files whose names are no lab's; or "" */
} gs_hand_in;

typedef struct gs_hand_ins {
    gs_hand_in *list; /* the hand-ins of a student behind each other */
    int count, room;
    int students;
} gs_hand_ins;

/* Find what is handed in below `folder`, in the order of the names, and put it behind what is in the list. A folder
 * that holds labs itself is one student's. Links are not followed: a link is no work of the student's own, and may
 * lead back to where it is. What cannot be read is in the list, with its problem, and so is what
 * was handed in twice. GS_E_FILE: there is no such folder, or it holds nothing. */
gs_status gs_hand_ins_find(const char *folder, gs_hand_ins *);
void gs_hand_ins_free(gs_hand_ins *);

/* The text of a file that somebody has handed in, into the file `to`. GS_E_FILE: it is no file, a link, or larger than
 * GS_HAND_IN_MOST bytes. GS_E_MEMORY, which is not the student's fault: `to` cannot be written. */
enum { GS_HAND_IN_MOST = 1 << 20 };
gs_status gs_hand_in_copy(const char *path, const char *to);

/* Is there room for so many bytes? On a full disk no hand-in would compile. GS_E_FILE says how much there is. */
gs_status gs_hand_in_room(const char *folder, uint64_t bytes);
