/* A hand-in's recorded run, held to the hash that its teacher wants.
 *
 * `train --exact` ends with the same weights on every machine, so a lesson can ask for a run and know its hash.
 * lessons/NN-NAME/exact.txt holds the SHA-256 of the weights and the options, in one line: "3cd2...47f1 --model lenet".
 * Students hand in the run.json of `gradsum train --exact OPTIONS --log DIR` beside the lab and under its name, as
 * 08/lab.json or lab-08.json. It is text that they could edit: no proof, and no points. */
#pragma once

#include <stddef.h>

/* A sentence that says why the record beside the hand-in `lab` is not that of the run in the file `wanted`. "": it is,
 * or one of the two files is missing. */
void gs_exact_run_check(const char *wanted, const char *lab, char *text, size_t size);
