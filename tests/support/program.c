#include "tests/support/program.h"
#include "tests/support/files.h"

#include <sys/wait.h>

enum { COMMAND_SIZE = 4096 };

static char *run(int *status, const char *command) {
    setenv("GS_TEST_COMMAND", command, 1);
    FILE *pipe = popen("timeout -k 5 600 sh -c \"$GS_TEST_COMMAND\" 2>&1", "r");
    if (!pipe) gs_bug("cannot run %s", command);
    size_t used = 0, room = 1 << 20; /* more than any command prints */
    char *text = malloc(room);
    if (!text) gs_bug("no memory for the output of %s", command);
    for (size_t n; (n = fread(text + used, 1, room - used - 1, pipe)) > 0;) used += n;
    text[used] = 0;
    const int ended = pclose(pipe);
    *status = WIFEXITED(ended) ? WEXITSTATUS(ended) : 128 + WTERMSIG(ended);
    return gs_test_keep(realloc(text, used + 1));
}

static char *run_to(int wanted, const char *command) {
    int status;
    char *output = run(&status, command);
    if (status != wanted) fail_msg("%s\nexit %d, wanted %d:\n%s", command, status, wanted, output);
    return output;
}

/* Formats into `text`: `begin`, then the caller's format and arguments. */
#define COMMAND(text, begin, format)                                                                         \
    char text[COMMAND_SIZE];                                                                                 \
    do {                                                                                                     \
        va_list args;                                                                                        \
        va_start(args, format);                                                                              \
        strcpy(text, begin);                                                                                 \
        vsnprintf(text + strlen(begin), sizeof text - strlen(begin), format, args);                          \
        va_end(args);                                                                                        \
    } while (0)
#define PROGRAM GS_BUILD_DIR "/gradsum "

int gs_test_shell(char **output, const char *command, ...) {
    int status;
    COMMAND(text, "", command);
    char *printed = run(&status, text);
    if (output) *output = printed;
    return status;
}

int gs_test_program(char **output, const char *arguments, ...) {
    int status;
    COMMAND(text, PROGRAM, arguments);
    *output = run(&status, text);
    return status;
}

char *gs_test_shell_output(int status, const char *command, ...) {
    COMMAND(text, "", command);
    return run_to(status, text);
}

char *gs_test_output(int status, const char *arguments, ...) {
    COMMAND(text, PROGRAM, arguments);
    return run_to(status, text);
}

void gs_test_fits(const char *output, size_t columns) {
    for (const char *line = output; *line; line += strcspn(line, "\n"), line += *line == '\n')
        if (strcspn(line, "\n") > columns) fail_msg("more than %zu columns: %.200s", columns, line);
}

/* Removes line breaks, because the length of TMPDIR decides where a line that names a file is wrapped. */
static const char *unwrap(char *text) {
    static const char wrap[] = "\n         ";
    for (char *at; (at = strstr(text, wrap)); *at = ' ')
        memmove(at + 1, at + strlen(wrap), strlen(at + strlen(wrap)) + 1);
    return text;
}

static void prints(int status, const char *part, const char *command) {
    char *output = run_to(status, command);
    if (!strstr(output, part) && !strstr(unwrap(output), part))
        fail_msg("%s\nwanted '%s' in:\n%s", command, part, output);
}

void assert_prints(int status, const char *part, const char *arguments, ...) {
    COMMAND(text, PROGRAM, arguments);
    prints(status, part, text);
}

void assert_shell_prints(int status, const char *part, const char *command, ...) {
    COMMAND(text, "", command);
    prints(status, part, text);
}

void assert_ranks_print(int status, const char *part, const char *run, const char *of_0, const char *of_1) {
    assert_shell_prints(status, part,
                        "export GRADSUM_WORLD_SIZE=2 GRADSUM_TIMEOUT=200 GRADSUM_RENDEZVOUS=%s; "
                        "G='%s/gradsum %s'; GRADSUM_RANK=0 $G %s & GRADSUM_RANK=1 $G %s; S=$?; wait; "
                        "exit $S",
                        gs_test_folder(), GS_BUILD_DIR, run, of_0, of_1);
}

const cJSON *gs_test_field(const cJSON *object, const char *name) {
    const cJSON *f = cJSON_GetObjectItemCaseSensitive(object, name);
    if (!f) fail_msg("there is no \"%s\" in %s", name, cJSON_PrintUnformatted(object));
    return f;
}

cJSON *gs_test_parse(const char *text) {
    cJSON *o = cJSON_Parse(text);
    if (!o) fail_msg("not JSON: %s", text);
    return gs_test_keep(o);
}

cJSON *gs_test_page_data(const char *page) {
    static const char begin[] = "<script id=\"data\" type=\"application/json\">";
    const char *json = strstr(page, begin);
    assert_true(json && strstr(json, "</script>"));
    return gs_test_parse(json + strlen(begin));
}

char *gs_test_page(const char *path, cJSON **data) {
    size_t length;
    char *text = gs_test_text(path, &length);
    assert_int_equal(strlen(text), length);
    assert_true(length < 2000000);
    *data = gs_test_page_data(text);
    return text;
}
