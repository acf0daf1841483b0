/* Text for people: the screen's width, wrapped sentences, and rounded shares. */
#include "tests/support/test.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include "cli/wrapped.h"

static void set(const char *name, const char *value) {
    value ? setenv(name, value, 1) : unsetenv(name);
}

static int width_with(FILE *f, const char *columns) {
    set("COLUMNS", columns);
    return gs_screen_width(f);
}

static FILE *terminal(int columns, int *master) {
    *master = posix_openpt(O_RDWR | O_NOCTTY);
    if (*master < 0 || grantpt(*master) != 0 || unlockpt(*master) != 0) return NULL;
    int fd = open(ptsname(*master), O_RDWR | O_NOCTTY);
    if (fd < 0) return NULL;
    struct winsize size = {.ws_row = 24, .ws_col = (unsigned short)columns};
    assert_int_equal(ioctl(fd, TIOCSWINSZ, &size), 0);
    return fdopen(fd, "w");
}

TEST(screens) {
    char *before = getenv("COLUMNS") ? strdup(getenv("COLUMNS")) : NULL;
    FILE *pipe = fopen("/dev/null", "w");
    assert_int_equal(width_with(pipe, NULL), 80);
    assert_int_equal(width_with(pipe, "60"), 60);
    assert_int_equal(width_with(pipe, "3"), GS_SCREEN_LEAST);
    assert_int_equal(width_with(pipe, "zebra"), 80);
    assert_int_equal(width_with(pipe, "-5"), 80);
    assert_int_equal(width_with(pipe, "999999999999999999999"), 1000);
    fclose(pipe);

    int master;
    FILE *tty = terminal(57, &master);
    if (tty) {
        assert_int_equal(width_with(tty, NULL), 57);
        assert_int_equal(width_with(tty, "70"), 70);
        fclose(tty);
    }
    close(master);
    set("COLUMNS", before);
    free(before);
    if (!tty) skip_because("no pseudo terminal can be opened here");
}

/* Reads back this many lines: a terminal may return what was written piece by piece. */
static char *read_back(FILE *f, int from, int lines) {
    static char text[1000];
    size_t count = 0;
    fflush(f);
    while (lines > 0) {
        const ssize_t got = read(from, text + count, sizeof text - 1 - count);
        assert_true(got > 0);
        for (ssize_t i = 0; i < got; i++) lines -= text[count + (size_t)i] == '\n';
        count += (size_t)got;
    }
    text[count] = 0;
    return text;
}

/* On a terminal words are not cut; in a pipe a message is one line. */
TEST(sentences) {
    static const char LONG[] = "gradsum train: no data at 'x' (No such file or directory); wanted a folder",
                      OWN[] = "a message with\n    lines of its own, as long as it wants them to be: here";
    char *before = getenv("COLUMNS") ? strdup(getenv("COLUMNS")) : NULL;
    int pipes[2], master;
    assert_int_equal(pipe(pipes), 0);
    FILE *f = fdopen(pipes[1], "w"), *tty = terminal(40, &master);
    unsetenv("COLUMNS");
    gs_print_sentence(f, LONG);
    const char *wanted = gs_test_format("%s\n", LONG);
    assert_string_equal(read_back(f, pipes[0], 1), wanted);
    if (tty) {
        gs_print_sentence(tty, LONG);
        assert_string_equal(read_back(tty, master, 2), "gradsum train: no data at 'x' (No such\r\n"
                                                       "file or directory); wanted a folder\r\n");
        gs_print_sentence(tty, OWN);
        assert_non_null(strstr(read_back(tty, master, 2), "as long as it wants them to be: here\r\n"));
        fclose(tty);
    }
    fclose(f);
    close(pipes[0]);
    close(master);
    set("COLUMNS", before);
    free(before);
    if (!tty) skip_because("no pseudo terminal can be opened here");
}

TEST(a_share_has_no_minus_zero) {
    static const struct {
        double share;
        const char *text;
    } cases[] = {{-0.0001, "0.0"}, {-0.0, "0.0"}, {-0.0006, "-0.1"}, {0.158, "15.8"}, {1, "100.0"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *text = gs_test_format("%.1f", gs_percent(cases[i].share));
        assert_string_equal(text, cases[i].text);
    }
}
