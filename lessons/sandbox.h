/* A sandbox for untrusted programs: bubblewrap (Debian: bubblewrap).
 *
 *     sees        the system's programs and libraries and the lessons' headers, all read-only; its own folder
 *     has         its own process namespace, no network, no environment variables; 64 MB for files in /tmp,
 *                 and no other writable folder
 *     runs as     a separate user if root grades, else as nobody in a separate namespace
 *
 * Time and memory limits are set and enforced from outside, for all of its processes together (contain.h).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include "core/error.h"

enum { LAB_SANDBOX_WORDS = 120, LAB_SANDBOX_TEXT = 64 };

typedef struct lab_sandbox {
    const char *folder;  /* the hand-in's folder; it appears inside as /work */
    const char *headers; /* appears inside as /tree, the program's working folder */
    unsigned user;       /* 0: do not change the user */
} lab_sandbox;

/* Checks whether this machine can run a sandbox. GS_E_DEVICE: it cannot; the message says why. The user becomes the
 * owner of the folder, which must contain no folders, and of its files. */
gs_status lab_sandbox_create(lab_sandbox *, const char *folder, const char *headers);

/* The words to put before a command to run it in the sandbox; returns their number. They live as long as the sandbox.
 * writable: the command may write to its folder. environment: "NAME=value", ending with NULL; apart from that, the
 * command receives only PATH, HOME and the variables that OpenCL reads. */
int lab_sandbox_words(lab_sandbox *, bool writable, char *const *environment,
                      const char *words[LAB_SANDBOX_WORDS]);
