/* Runs the program as a user would. */
#pragma once

#include "tests/support/test.h"

#include <cjson/cJSON.h>

/* Runs "gradsum <arguments>" through the shell in a new process, for 600 s at most. Returns its exit status (124: it
 * timed out). *output is its standard output and standard error; it is kept (gs_test_keep). */
int gs_test_program(char **output, const char *arguments, ...) GS_PRINTF(2, 3);

/* The same for any shell command; output may be NULL. */
int gs_test_shell(char **output, const char *command, ...) GS_PRINTF(2, 3);

/* The same, but requires this exit status and returns the output. */
char *gs_test_output(int status, const char *arguments, ...) GS_PRINTF(2, 3);
char *gs_test_shell_output(int status, const char *command, ...) GS_PRINTF(2, 3);

/* Shell: wait until the file "out" contains a line that starts with this, allowing for a busy machine: about five
 * minutes at most. `train` prints "step " when all ranks have met and the first step starts. */
#define GS_TEST_AWAIT(begin) "for i in $(seq 6000); do grep -qs '^" begin "' out && break; sleep 0.05; done; "

/* Checks that no line is wider than this many columns. */
void gs_test_fits(const char *output, size_t columns);

/* Runs the program: it must exit with `status`, and its output must contain `part`. */
void assert_prints(int status, const char *part, const char *arguments, ...) GS_PRINTF(3, 4);
void assert_shell_prints(int status, const char *part, const char *command, ...) GS_PRINTF(3, 4);

/* Runs two ranks of "gradsum <run>", each with further options. Rank 1 must exit with `status`, and at least one rank
 * must print `part`. */
void assert_ranks_print(int status, const char *part, const char *run, const char *of_0, const char *of_1);

/* The member `name` of JSON output; fails if there is none. */
const cJSON *gs_test_field(const cJSON *object, const char *name);

/* The first parses the JSON at the start of a text, the second the data in a page's text. The results are kept. */
cJSON *gs_test_parse(const char *text);
cJSON *gs_test_page_data(const char *page);

/* Reads the page in this file: its text, and its data. Checks that its size is sensible. */
char *gs_test_page(const char *path, cJSON **data);
