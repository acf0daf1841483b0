/* Running the program as a user would. */
#pragma once

#include "tests/support/test.h"

#include <cjson/cJSON.h>

/* Run "gradsum <arguments>" through the shell in a new process, for 600 s at most. Returns its exit status (124: it
 * took longer). *output is what it printed to standard output and standard error; it is kept (gs_test_keep). */
int gs_test_program(char **output, const char *arguments, ...) GS_PRINTF(2, 3);

/* The same for any shell command; output may be NULL. */
int gs_test_shell(char **output, const char *command, ...) GS_PRINTF(2, 3);

/* The same, where the exit status must be this one. */
char *gs_test_output(int status, const char *arguments, ...) GS_PRINTF(2, 3);
char *gs_test_shell_output(int status, const char *command, ...) GS_PRINTF(2, 3);

/* Shell: wait until the file "out" has a line that begins so, as long as a busy machine needs; minutes at most.
 * `train` prints "step " when all ranks have met and the first step begins. */
#define GS_TEST_AWAIT(begin) "for i in $(seq 6000); do grep -qs '^" begin "' out && break; sleep 0.05; done; "

/* No line is wider than so many columns. */
void gs_test_fits(const char *output, size_t columns);

/* It exits with `status` and prints `part` somewhere. */
void assert_prints(int status, const char *part, const char *arguments, ...) GS_PRINTF(3, 4);
void assert_shell_prints(int status, const char *part, const char *command, ...) GS_PRINTF(3, 4);

/* Two ranks of "gradsum <run>", to which their own options are added. Rank 1 exits with `status`, and one of the two
 * prints `part`. */
void assert_ranks_print(int status, const char *part, const char *run, const char *of_0, const char *of_1);

/* The member `name` of what it printed as JSON; fails when there is none. */
const cJSON *gs_test_field(const cJSON *object, const char *name);

/* What the text is as JSON, of which it may be the beginning; and the data in a page's text. Both are kept. */
cJSON *gs_test_parse(const char *text);
cJSON *gs_test_page_data(const char *page);

/* The text and the data of the page in this file, which is of a sensible size. */
char *gs_test_page(const char *path, cJSON **data);
