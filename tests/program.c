#include "tests/program.h"

#include <sys/wait.h>

enum { COMMAND_SIZE = 4096 };

static int run(char **output, const char *command) {
    setenv("GS_TEST_COMMAND", command, 1);
    FILE *pipe = popen("timeout -k 5 600 sh -c \"$GS_TEST_COMMAND\" 2>&1", "r");
    if (!pipe) gs_bug("cannot run %s", command);
    size_t used = 0, room = 1 << 20; /* more than any command prints */
    char *text = malloc(room);
    if (!text) gs_bug("no memory for the output of %s", command);
    for (size_t n; (n = fread(text + used, 1, room - used - 1, pipe)) > 0;) used += n;
    text[used] = 0;
    int status = pclose(pipe);
    if (output)
        *output = text;
    else
        free(text);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int gs_test_shell(char **output, const char *command, ...) {
    char text[COMMAND_SIZE];
    va_list args;
    va_start(args, command);
    vsnprintf(text, sizeof text, command, args);
    va_end(args);
    return run(output, text);
}

int gs_test_program(char **output, const char *arguments, ...) {
    char text[COMMAND_SIZE];
    int used = snprintf(text, sizeof text, "%s/gradsum ", GS_BUILD_DIR);
    va_list args;
    va_start(args, arguments);
    vsnprintf(text + used, sizeof text - (size_t)used, arguments, args);
    va_end(args);
    return run(output, text);
}

/* Where a fact that names a file goes on in the next line depends on the length of TMPDIR. */
static const char *unwrap(char *text) {
    static const char wrap[] = "\n         ";
    for (char *at; (at = strstr(text, wrap)); *at = ' ')
        memmove(at + 1, at + strlen(wrap), strlen(at + strlen(wrap)) + 1);
    return text;
}

void gs_test_program_prints(int status, const char *part, const char *arguments, ...) {
    char text[COMMAND_SIZE / 2], *output;
    va_list args;
    va_start(args, arguments);
    vsnprintf(text, sizeof text, arguments, args);
    va_end(args);
    int got = gs_test_program(&output, "%s", text);
    bool has = strstr(output, part) || strstr(unwrap(output), part);
    if (got != status || !has)
        print_error("gradsum %s\nexit %d, wanted %d; wanted '%s' in:\n%s\n", text, got, status, part, output);
    free(output);
    assert_int_equal(got, status);
    assert_true(has);
}

const cJSON *gs_test_field(const cJSON *object, const char *name) {
    const cJSON *f = cJSON_GetObjectItemCaseSensitive(object, name);
    if (!f) fail_msg("the event has no \"%s\"", name);
    return f;
}
