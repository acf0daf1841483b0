/* A folder of hand-ins. It contains a folder for each student, with NN/lab.c or lab-NN.c for each lab (or lab.cl,
 * lab-NN.cl), possibly inside another folder; or a whole source tree, with lessons/NN-NAME/lab.c; or Canvas's files of
 * all students, lastFirst_LATE_4711_9988_lab-NN-1.c. Upper and lower case are equivalent. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include "core/error.h"

typedef struct gs_hand_in {
    int who;           /* the student's number, because several students may have the same name */
    char *student;     /* the folder's name */
    char lab[3];       /* "07"; "" if the student handed in nothing */
    char *path;        /* the file's path */
    int attempt;       /* 1 for "lab-07-1.c" and "lab-07 (1).c": the newest is graded */
    char problem[400]; /* why it cannot be graded, or "" */
    char others[200];  /* in a student's first one: "x.c, notes.txt", files that belong to no lab; else "" */
} gs_hand_in;

typedef struct gs_hand_ins {
    gs_hand_in *list; /* a student's hand-ins are consecutive */
    int count, room;
    int students;
} gs_hand_ins;

/* Appends the hand-ins in `folder` to the list, sorted by name. A folder that contains labs directly belongs to one
 * student. Links are not followed: a link is not the student's own work, and may form a cycle. Unreadable and repeated
 * hand-ins are listed with their problem. GS_E_FILE: there is no such folder, or it contains nothing. */
gs_status gs_hand_ins_find(const char *folder, gs_hand_ins *);
void gs_hand_ins_free(gs_hand_ins *);

/* Copies a hand-in's text to the file `to`. GS_E_FILE: it is not a regular file, is a link, or is larger than
 * GS_HAND_IN_MOST bytes. GS_E_MEMORY, which is not the student's fault: `to` cannot be written. */
enum { GS_HAND_IN_MOST = 1 << 20 };
gs_status gs_hand_in_copy(const char *path, const char *to);

/* Checks that this many bytes are free: on a full disk no hand-in would compile. GS_E_FILE: names the free space. */
gs_status gs_hand_in_room(const char *folder, uint64_t bytes);
