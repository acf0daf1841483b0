/* The words that a shell completes (gradsum help --words) are those that the commands accept. */
#include "tests/support/program.h"

/* The end of the option's name in a line of help, "  --batch B ..." or "  -o, --out FILE"; NULL: no option. */
static const char *option_in(const char *line, char name[40]) {
    const char *dashes = strncmp(line, "  -o, --", 8) == 0 ? line + 6 : line + 2;
    if (strncmp(line, "  -", 3) != 0) return NULL;
    const size_t length = strcspn(dashes, " \n");
    snprintf(name, 40, "%.*s", (int)length, dashes);
    return dashes + length;
}

/* All options of a command, as a user would type them. */
static void type_all(const char *words, char *all, size_t size) {
    *all = 0;
    for (const char *w = words; *w; w += strcspn(w, "\n") + 1) {
        const size_t used = strlen(all), length = strcspn(w, "\t");
        if (strncmp(w, "--help", length) != 0)
            snprintf(all + used, size - used, " %.*s%s", (int)length, w, w[length + 1] != '\t' ? " 1" : "");
    }
}

/* Returns how many words it lists. */
static int assert_completed(const char *command, const char *help, const char *words) {
    char name[40];
    int seen = 0;
    for (const char *line = help; *line; line += strcspn(line, "\n") + 1) {
        if (!option_in(line, name)) continue;
        const char *wanted = gs_test_format("\n%s\t", name);
        if (strncmp(words, wanted + 1, strlen(wanted) - 1) != 0 && !strstr(words, wanted))
            fail_msg("gradsum %s lists %s, which is not completed", command, name);
        seen++;
    }
    return seen;
}

/* A command may have several forms, which some of its options or train's options select: these are given, followed by
 * --help. The shell completes what that lists, and what help alone lists. */
TEST(all_options_are_completed) {
    char *commands, *words, *help, given[3][4000] = {""};
    int seen = 0;
    gs_test_program(&words, "help --words train");
    type_all(words, given[2], sizeof given[2]);
    assert_non_null(strstr(given[2], " --pipeline 1"));
    commands = gs_test_output(0, "help --words");
    for (char *command = commands; *command;) {
        char *next = command + strcspn(command, "\n") + 1;
        command[strcspn(command, "\t")] = 0;
        gs_test_program(&words, "help --words %s", command);
        type_all(words, given[1], sizeof given[1]);
        for (int form = 0; form < 3; form++) {
            gs_test_program(&help, "%s%s --help", command, given[form]);
            seen += assert_completed(command, help, words);
        }
        command = next;
    }
    assert_true(seen > 500);
}
