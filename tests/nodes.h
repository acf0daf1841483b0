/* Several machines, simulated on this one: shell scripts in which $G is the program, $T a short training, and $M
 * "--meet tcp://..." at a free port. `launch R ...` is a launch of node rank R, whose output begins its lines with
 * "nR: ". All have a secret.
 */
#pragma once

#include "tests/launched.h"

/* Run the script; returns its exit status. *output is to be freed. */
int gs_test_nodes_one(char **output, const char *script);

/* Several of them at once: most of their time they wait. output[i] is to be freed. */
void gs_test_nodes(int count, const char *const *script, char **output);
