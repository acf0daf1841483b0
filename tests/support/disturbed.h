/* A launch whose ranks are killed: a test starts it, watches it, and inspects what it leaves. */
#pragma once

#include <sys/types.h>
#include "tests/support/test.h"

typedef struct disturbed {
    pid_t launcher;
    char tmp[400], out[400], err[400], checkpoints[400]; /* in a folder that the test owns */
    char *said;                                          /* standard error, after the end; free it */
} disturbed;

/* Starts gradsum launch <options>; "@" stands for the folder of checkpoints. */
void gs_test_disturbed_start(disturbed *, const char *options);

/* Wait until the file contains this text, or until there is a checkpoint of this step or a later one. */
void gs_test_disturbed_wait(const char *path, const char *part);
void gs_test_disturbed_wait_for_step(const disturbed *, uint64_t step);

/* Sends a signal to the process that was started as this rank. */
void gs_test_disturbed_send(const disturbed *, int rank, int number);

/* Waits for the end; checks the exit status, and that no process and no folder is left. */
void gs_test_disturbed_end(disturbed *, int wanted);

/* After the end: standard error must contain `part`; the weights must be those of this run of gradsum. */
void gs_test_disturbed_said(const disturbed *, const char *part);
void gs_test_disturbed_sha256(const disturbed *, const char *undisturbed);

/* With --elastic: this many workers must have continued, the first time after step `least` or later. */
void gs_test_disturbed_went_on(const disturbed *, int workers, int least);
