/* The source tree with the lessons, which only a program of its build folder has. */
#pragma once

#include <limits.h>
#include "core/error.h"

typedef struct gs_tree {
    char path[PATH_MAX];
    char build[PATH_MAX]; /* the build folder, seen from there */
} gs_tree;

/* `what` needs it: "grading". GS_E_FILE: this program is not in a source tree. */
gs_status gs_tree_find(const char *what, gs_tree *);
