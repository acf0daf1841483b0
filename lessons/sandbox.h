/* A room for a program that nobody can trust: bubblewrap (Debian: bubblewrap).
 *
 *     sees        the system's programs and libraries, and the lessons' headers, which it cannot change; its own folder
 *     has         its own processes, no network, no variables of the environment; 64 MB for temporary files in /tmp,
 *                 and no other folder that it could write into
 *     runs as     a user of its own where root grades, and else as nobody in a name space of its own
 *
 * Limits on time and memory are set and watched from outside, on all of its processes together (contain.h).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include "core/error.h"

enum { LAB_SANDBOX_WORDS = 120, LAB_SANDBOX_TEXT = 64 };

typedef struct lab_sandbox {
    const char *folder;  /* of the hand-in; inside it is /work */
    const char *headers; /* inside it is /tree, and the folder where the program begins */
    unsigned user;       /* 0: not as another user */
} lab_sandbox;

/* Is there a sandbox on this machine? GS_E_DEVICE: why not. The folder, which holds no folders, and its files become
 * the user's own. */
gs_status lab_sandbox_create(lab_sandbox *, const char *folder, const char *headers);

/* The words before those of a command that runs inside; returns how many. They live as long as the sandbox.
 * writable: the command may write into its folder. environment: "NAME=value", NULL ends them; it has no other but
 * PATH, HOME and what OpenCL reads. */
int lab_sandbox_words(lab_sandbox *, bool writable, char *const *environment,
                      const char *words[LAB_SANDBOX_WORDS]);
