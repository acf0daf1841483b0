/* A launch whose ranks are killed: started, watched, and looked at when it has ended. */
#pragma once

#include <stdint.h>
#include <sys/types.h>
#include "tests/support/test.h"

typedef struct disturbed {
    pid_t launcher;
    char tmp[400], out[400], err[400], checkpoints[400]; /* in a folder of the test's */
    char *said;                                          /* on standard error, at the end; to be freed */
} disturbed;

/* gradsum launch <options>; "@" stands for the folder of checkpoints. */
void gs_test_disturbed_start(disturbed *, const char *options);

/* Until the file holds this text; until there is a checkpoint of this step or a later one. */
void gs_test_disturbed_wait(const char *path, const char *part);
void gs_test_disturbed_wait_for_step(const disturbed *, uint64_t step);

/* A signal to the process that was started as this rank. */
void gs_test_disturbed_send(const disturbed *, int rank, int number);

/* wanted: the exit status. No process and no folder is left. */
void gs_test_disturbed_end(disturbed *, int wanted);

/* After the end: this is in its standard error; the weights of that run of gradsum are in its output. */
void gs_test_disturbed_said(const disturbed *, const char *part);
void gs_test_disturbed_sha256(const disturbed *, const char *undisturbed);

/* With --elastic: so many workers went on, the first time after step `least` or a later one. */
void gs_test_disturbed_went_on(const disturbed *, int workers, int least);
