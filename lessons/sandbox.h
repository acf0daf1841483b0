/* A sandbox for untrusted programs: bubblewrap (Debian: bubblewrap).
 *
 *     sees        the system's programs and libraries, and the lessons' headers, all read-only; its own folder
 *     has         its own processes, no network, no environment variables; 64 MB for temporary files in /tmp,
 *                 and no other writable folder
 *     runs as     a separate user where root grades, else as nobody in a separate namespace
 *
 * Limits on time and memory are set and watched from outside, on all of its processes together (contain.h).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include "core/error.h"

enum { LAB_SANDBOX_WORDS = 120, LAB_SANDBOX_TEXT = 64 };

typedef struct lab_sandbox {
    const char *folder;  /* the folder of the hand-in; inside it is /work */
    const char *headers; /* inside it is /tree, the program's working folder */
    unsigned user;       /* 0: not as another user */
} lab_sandbox;

/* Checks whether this machine can run a sandbox. GS_E_DEVICE: why not. The user becomes the owner of the folder, which
 * contains no folders, and of its files. */
gs_status lab_sandbox_create(lab_sandbox *, const char *folder, const char *headers);

/* The words that precede a command to run it inside; returns their number. They live as long as the sandbox. writable:
 * the command may write into its folder. environment: "NAME=value", NULL ends them; in addition the command only gets
 * PATH, HOME and what OpenCL reads. */
int lab_sandbox_words(lab_sandbox *, bool writable, char *const *environment,
                      const char *words[LAB_SANDBOX_WORDS]);
