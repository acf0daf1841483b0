/* The source tree with the lessons; only a program inside its build folder can find it. */
#pragma once

#include <limits.h>
#include "core/error.h"

typedef struct gs_tree {
    char path[PATH_MAX];
    char build[PATH_MAX]; /* the build folder, relative to the tree */
} gs_tree;

/* `what` names the purpose, for the message: "grading". GS_E_FILE: this program is not inside a source tree. */
gs_status gs_tree_find(const char *what, gs_tree *);
