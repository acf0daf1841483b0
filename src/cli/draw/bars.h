/* Bars made of characters: for a terminal of any width, for a pipe, and for a log.
 *
 * There is no colour and no cursor movement in them, so there is nothing that NO_COLOR would have to take away.
 * Where the output is no terminal that takes UTF-8 they are plain ASCII.
 *
 *     cpu      ====================                      1.00
 *     cpu,cpu  =====================================|    1.87     | 2 workers at full efficiency
 *
 *     cpu      dfffffffffffffbbbbbbbbbbbbbbbbbbbbbbbbbbu
 */
#pragma once

#include <stdbool.h>
#include <stdio.h>

/* What there is to draw on. */
typedef struct gs_screen {
    int width; /* columns, at least GS_SCREEN_LEAST */
    bool utf8;
} gs_screen;

enum { GS_SCREEN_LEAST = 20, GS_SCREEN_DEFAULT = 80, GS_BAR_MOST = 120 /* cells */ };

/* Of a stream: COLUMNS, else the terminal's width, else 80 columns. UTF-8: a terminal, and LC_ALL, LC_CTYPE or LANG
 * (the first of them that is set) names it. */
gs_screen gs_screen_of(FILE *);

/* At most 80 columns are drawn on, and fewer on a narrower screen. */
int gs_screen_columns(const gs_screen *);

/* Text of `cells` columns, in at most 3 bytes each and a final 0. */
typedef struct gs_bar {
    char text[3 * GS_BAR_MOST + 1];
} gs_bar;

/* value / most of `cells` filled from the left, the rest blanks; cells: 0 to GS_BAR_MOST. A value above `most` fills
 * all; one that is negative or no number fills nothing, as with most <= 0. Filled in eighths of a cell with UTF-8,
 * else in whole ones; a value above 0 shows at least the smallest piece. mark (>= 0): a '|' is drawn at this value, if
 * it lies within the bar, but not in its filled part; negative: none. */
void gs_bar_draw(gs_bar *, const gs_screen *, double value, double most, double mark, int cells);

/* All cells divided among the shares of the phases of a step (train.h), in proportion and in their order (largest
 * remainders: the counts add up to `cells`). Shares that are negative, infinite or no numbers count as 0; if all are 0
 * the bar is blank. */
enum { GS_SHARES = 5 };
void gs_bar_shares(gs_bar *, const gs_screen *, const double share[GS_SHARES], int cells);

/* The sign that stands for share i in gs_bar_shares, for a legend: one column, at most 3 bytes and a 0. */
const char *gs_share_sign(const gs_screen *, int i);
