/* Runs the program as a user would. */
#pragma once

#include "tests/support/test.h"

#include <cjson/cJSON.h>

/* Runs "gradsum <arguments>" through the shell in a new process, for 600 s at most. Returns its exit status (124: it
 * timed out). *output is its standard output and standard error; it is kept (gs_test_keep). */
int gs_test_program(char **output, const char *arguments, ...) GS_PRINTF(2, 3);

/* Does the same for any shell command; output may be NULL. */
int gs_test_shell(char **output, const char *command, ...) GS_PRINTF(2, 3);

/* Does the same and requires this exit status. */
char *gs_test_output(int status, const char *arguments, ...) GS_PRINTF(2, 3);
char *gs_test_shell_output(int status, const char *command, ...) GS_PRINTF(2, 3);

/* Shell: wait until the file "out" contains a line that starts with this, for as long as a busy machine needs, at most
 * minutes. `train` prints "step " when all ranks have met and the first step starts. */
#define GS_TEST_AWAIT(begin) "for i in $(seq 6000); do grep -qs '^" begin "' out && break; sleep 0.05; done; "

/* No line is wider than this many columns. */
void gs_test_fits(const char *output, size_t columns);

/* It exits with `status` and its output contains `part`. */
void assert_prints(int status, const char *part, const char *arguments, ...) GS_PRINTF(3, 4);
void assert_shell_prints(int status, const char *part, const char *command, ...) GS_PRINTF(3, 4);

/* Two ranks of "gradsum <run>", each with further options. Rank 1 exits with `status`, and one of the two prints
 * `part`. */
void assert_ranks_print(int status, const char *part, const char *run, const char *of_0, const char *of_1);

/* The member `name` of its JSON output; fails if there is none. */
const cJSON *gs_test_field(const cJSON *object, const char *name);

/* JSON at the start of a text, and the data in the text of a page. Both are kept. */
cJSON *gs_test_parse(const char *text);
cJSON *gs_test_page_data(const char *page);

/* The text and the data of the page in this file. Checks that its size is sensible. */
char *gs_test_page(const char *path, cJSON **data);
