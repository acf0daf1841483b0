/* Charts drawn with characters: their width, in ASCII and in UTF-8, for values of every size. */
#include "tests/support/test.h"

#include <fcntl.h>
#include <math.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include "cli/draw/chart.h"
#include "cli/draw/wrapped.h"

static const gs_screen PLAIN = {.width = 80}, UTF8 = {.width = 80, .utf8 = true};

/* The columns of a text in which every character takes one column. */
static int columns_of(const char *text) {
    int n = 0;
    for (; *text; text++) n += ((unsigned char)*text & 0xC0) != 0x80;
    return n;
}

/* ---- the screen ---- */

static void set(const char *name, const char *value) {
    value ? setenv(name, value, 1) : unsetenv(name);
}

static gs_screen screen_with(FILE *f, const char *columns, const char *all, const char *ctype,
                             const char *lang) {
    set("COLUMNS", columns);
    set("LC_ALL", all);
    set("LC_CTYPE", ctype);
    set("LANG", lang);
    return gs_screen_of(f);
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
    static const char *const names[] = {"COLUMNS", "LC_ALL", "LC_CTYPE", "LANG"};
    char *before[4];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        before[i] = getenv(names[i]) ? strdup(getenv(names[i])) : NULL;

    FILE *pipe = fopen("/dev/null", "w");
    gs_screen s = screen_with(pipe, NULL, NULL, NULL, "en_US.UTF-8");
    assert_int_equal(s.width, 80);
    assert_false(s.utf8); /* not a terminal */
    assert_int_equal(screen_with(pipe, "60", NULL, NULL, NULL).width, 60);
    assert_int_equal(screen_with(pipe, "3", NULL, NULL, NULL).width, GS_SCREEN_LEAST);
    assert_int_equal(screen_with(pipe, "zebra", NULL, NULL, NULL).width, 80);
    assert_int_equal(screen_with(pipe, "-5", NULL, NULL, NULL).width, 80);
    assert_int_equal(screen_with(pipe, "999999999999999999999", NULL, NULL, NULL).width, 1000);
    s.width = 200;
    assert_int_equal(gs_screen_columns(&s), 80);
    fclose(pipe);

    int master;
    FILE *tty = terminal(57, &master);
    if (tty) {
        s = screen_with(tty, NULL, NULL, NULL, "de_DE.utf8");
        assert_int_equal(s.width, 57);
        assert_true(s.utf8);
        assert_false(screen_with(tty, NULL, NULL, NULL, "C").utf8);
        assert_false(screen_with(tty, NULL, "C", NULL, "C.UTF-8").utf8);
        assert_true(screen_with(tty, NULL, "", "C.UTF-8", "C").utf8);
        assert_false(screen_with(tty, NULL, NULL, NULL, NULL).utf8);
        assert_int_equal(screen_with(tty, "70", NULL, NULL, NULL).width, 70);
        fclose(tty);
    }
    close(master);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        set(names[i], before[i]);
        free(before[i]);
    }
    if (!tty) skip_because("no pseudo terminal can be opened here");
}

/* ---- sentences ---- */

/* A terminal may deliver what was written in fragments: reads up to this many line ends. */
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

/* On a terminal words are not broken; in a pipe a message is one line. */
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

/* ---- the chart ---- */

#define AT(at_x, at_y)                                                                                       \
    { .x = (at_x), .y = (at_y) }

static char *chart(const gs_screen *s, const gs_chart_point *points, int count) {
    char *text;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    gs_chart c = {"title", "measured", "the seeds", "the ideal", "not reached", points, count};
    gs_chart_draw(f, s, &c);
    fclose(f);
    for (char *line = text; *line; line += strcspn(line, "\n") + 1) {
        const char *copy = gs_test_format("%.*s", (int)strcspn(line, "\n"), line);
        if (columns_of(copy) > s->width)
            fail_msg("%d columns, wanted %d: %s", columns_of(copy), s->width, copy);
    }
    return gs_test_own(text, free);
}

/* The position of a sign: line and column of its first occurrence from line `from` on; -1 if absent. */
static void find(const char *text, int from, char sign, int *line, int *column) {
    *line = 0, *column = -1;
    for (const char *c = text; *c; c++) {
        if (*line >= from && *c == sign) {
            const char *start = c;
            while (start > text && start[-1] != '\n') start--;
            *column = (int)(c - start);
            return;
        }
        *line += *c == '\n';
    }
}

/* Perfect scaling is a straight line from corner to corner, and covers the ideal line. */
TEST(perfect_scaling_is_the_diagonal) {
    const gs_chart_point points[] = {AT(10, 1000), AT(100, 100), AT(1000, 10)};
    char *text = chart(&PLAIN, points, 3);
    int line[3], column[3], from = 1;
    for (int i = 0; i < 3; i++) {
        find(text, from, 'o', &line[i], &column[i]);
        from = line[i] + 1;
    }
    assert_has(chart(&UTF8, points, 3), "│●···", "└──");
    assert_int_equal(line[0], 1); /* below the title */
    assert_int_equal(line[2], 12);
    assert_int_equal(column[0], 10);
    assert_int_equal(column[2], 78);
    assert_int_equal(column[1], 44);
    assert_true(line[1] == 6 || line[1] == 7);
    assert_has(text, "    1000 |o", "      10 |", "the ideal");
    assert_null(strstr(text, "never"));
}

TEST(points_that_are_not_reached) {
    const gs_chart_point points[] = {AT(32, 100), AT(64, 90), AT(128, INFINITY), AT(256, NAN)};
    for (int utf8 = 0; utf8 < 2; utf8++)
        for (int width = 24; width < 100; width += 7) {
            gs_screen s = {width, utf8};
            char *text = chart(&s, points, 4);
            const char *row = strstr(text, "never ");
            assert_non_null(row);
            int marks = 0;
            for (const char *c = row; *c != '\n'; c++) marks += utf8 ? strncmp(c, "×", 2) == 0 : *c == 'x';
            assert_int_equal(marks, 2);
        }
    char *text = chart(&PLAIN, points + 2, 2);
    assert_string_equal(text, "no chart: not reached\n");
}

/* A range passes through its point, from the minimum to the maximum. It is drawn even where the median is "never". */
TEST(ranges_of_points) {
    const gs_chart_point points[] = {
        {10, 1000, 100, 1000}, {100, 100, 10, 1000}, {1000, INFINITY, 10, 100}, {2000, 10, NAN, NAN}};
    char *text = chart(&PLAIN, points, 4);
    int rows[3] = {0};
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
        for (int i = 0; i < 3; i++) {
            int at = 10 + (int)(log(points[i].x / 10) / log(200) * 68 + 0.5);
            rows[i] += (int)strlen(line) > at && (line[at] == '|' || line[at] == 'o') && line[9] == '|';
        }
    /* 12 rows from 1000 to 5, where the ideal line ends: 100 is in the sixth row from the top, 10 in the eleventh */
    assert_int_equal(rows[0], 6);
    assert_int_equal(rows[1], 11);
    assert_int_equal(rows[2], 6);
    text = chart(&PLAIN, points, 4);
    assert_has(text, "| the seeds");
}

TEST(charts_of_odd_ranges) {
    const gs_chart_point one[] = {AT(32, 100)}, level[] = {AT(1, 5), AT(2, 5), AT(3, 5)},
                         huge[] = {AT(1e-200, 1e200), AT(1, 1e-200), AT(1e200, 1e300)},
                         crowd[] = {AT(1000000, 5), AT(1000001, 5), AT(1000002, 4)};
    for (int utf8 = 0; utf8 < 2; utf8++) {
        gs_screen s = {60, utf8};
        chart(&s, one, 1);
        chart(&s, level, 3);
        chart(&s, huge, 3);
        chart(&s, crowd, 3);
    }
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
