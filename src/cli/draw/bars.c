#include "cli/draw/bars.h"

#include "core/error.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* ---- the screen ---- */

static bool names_utf8(const char *locale) {
    for (; *locale; locale++)
        if (strncasecmp(locale, "utf-8", 5) == 0 || strncasecmp(locale, "utf8", 4) == 0) return true;
    return false;
}

static bool locale_is_utf8(void) {
    static const char *const variables[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    for (int i = 0; i < 3; i++) {
        const char *locale = getenv(variables[i]);
        if (locale && *locale) return names_utf8(locale);
    }
    return false;
}

gs_screen gs_screen_of(FILE *file) {
    int fd = fileno(file);
    bool terminal = isatty(fd);
    gs_screen s = {.width = GS_SCREEN_DEFAULT, .utf8 = terminal && locale_is_utf8()};
    const char *columns = getenv("COLUMNS");
    struct winsize size;
    long asked = columns ? strtol(columns, NULL, 10) : 0;
    if (asked <= 0 && terminal && ioctl(fd, TIOCGWINSZ, &size) == 0) asked = size.ws_col;
    if (asked > 0) s.width = asked < GS_SCREEN_LEAST ? GS_SCREEN_LEAST : asked < 1000 ? (int)asked : 1000;
    return s;
}

int gs_screen_columns(const gs_screen *s) {
    return s->width < GS_SCREEN_DEFAULT ? s->width : GS_SCREEN_DEFAULT;
}

/* ---- one value ---- */

static const char *const eighths[] = {" ", "▏", "▎", "▍", "▌", "▋", "▊", "▉", "█"};

static int check_cells(int cells) {
    if (cells < 0 || cells > GS_BAR_MOST) gs_bug("a bar of %d cells", cells);
    return cells;
}

/* value / most in 0 .. 1; what is no number is 0 */
static double part_of(double value, double most) {
    if (!(value > 0) || !(most > 0)) return 0;
    return value < most ? value / most : 1;
}

void gs_bar_draw(gs_bar *bar, const gs_screen *s, double value, double most, double mark, int cells) {
    int pieces = s->utf8 ? 8 : 1, all = check_cells(cells) * pieces;
    int filled = (int)(part_of(value, most) * all + 0.5);
    if (filled == 0 && value > 0 && most > 0 && cells > 0) filled = 1;
    int marked = mark <= most ? (int)ceil(part_of(mark, most) * cells) - 1 : -1;
    char *to = bar->text;
    for (int i = 0; i < cells; i++) {
        int here = filled - i * pieces;
        here = here < 0 ? 0 : here > pieces ? pieces : here;
        const char *sign = s->utf8 ? eighths[here] : here ? "=" : " ";
        if (here == 0 && i == marked) sign = "|";
        to = stpcpy(to, sign);
    }
    *to = 0;
}

/* ---- shares ---- */

/* data, forward, backward, sync, update: initials, or shades among which that of synchronisation is the darkest */
static const char *const letters[GS_SHARES] = {"d", "f", "b", "s", "u"};
static const char *const shades[GS_SHARES] = {"·", "░", "▒", "█", "▓"};

const char *gs_share_sign(const gs_screen *s, int i) {
    if (i < 0 || i >= GS_SHARES) gs_bug("share number %d", i);
    return s->utf8 ? shades[i] : letters[i];
}

/* How many of the cells each share gets: the whole part of what it is due, and one more for those whose rest is
 * largest (Hamilton's method). */
static void divide(const double share[GS_SHARES], int cells, int count[GS_SHARES]) {
    double largest = 0, sum = 0, due[GS_SHARES], rest[GS_SHARES];
    int left = cells;
    for (int i = 0; i < GS_SHARES; i++) {
        due[i] = share[i] > 0 && isfinite(share[i]) ? share[i] : 0;
        if (due[i] > largest) largest = due[i];
    }
    for (int i = 0; i < GS_SHARES && largest > 0; i++) sum += due[i] /= largest; /* which cannot overflow */
    for (int i = 0; i < GS_SHARES; i++) {
        due[i] = sum > 0 ? due[i] / sum * cells : 0;
        count[i] = (int)due[i];
        rest[i] = due[i] - count[i];
        left -= count[i];
    }
    while (left > 0 && sum > 0) {
        int most = 0;
        for (int i = 1; i < GS_SHARES; i++)
            if (rest[i] > rest[most]) most = i;
        count[most]++;
        rest[most] = -1;
        left--;
    }
}

void gs_bar_shares(gs_bar *bar, const gs_screen *s, const double share[GS_SHARES], int cells) {
    int count[GS_SHARES], used = 0;
    divide(share, check_cells(cells), count);
    char *to = bar->text;
    for (int i = 0; i < GS_SHARES; i++)
        for (int k = 0; k < count[i]; k++, used++) to = stpcpy(to, gs_share_sign(s, i));
    for (; used < cells; used++) to = stpcpy(to, " ");
    *to = 0;
}
