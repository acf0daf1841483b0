/* A chart of points, drawn with characters on logarithmic axes: at most 80 columns, 19 lines.
 *
 *     steps to 80 % test accuracy, by global batch (both axes logarithmic)
 *       never |                           x
 *         100 |o
 *             |  ...
 *          50 |     ..o
 *             |        ...
 *          20 |           .. o
 *             +--------------------------
 *              32     64    128    256
 *              o measured
 *              . ideal: twice the batch, half the steps
 *              x not reached
 *
 * A point may have a range, such as that of several seeds, drawn as a line of '|' through it.
 */
#pragma once

#include "cli/draw/wrapped.h"

typedef struct gs_chart_point {
    double x, y;        /* > 0; y infinite or NaN: a point in the row "never" */
    double least, most; /* the range; 0 or NaN: none */
} gs_chart_point;

typedef struct gs_chart {
    const char *title;
    /* The legend of the points, the range (NULL: none), the line y = y0 x0 / x through the first point, and the points
     * without y. */
    const char *measured, *range, *ideal, *never;
    const gs_chart_point *points; /* by x, ascending */
    int count;                    /* > 0 */
} gs_chart;

/* If no point has a y, print one line that says so. */
void gs_chart_draw(FILE *, const gs_screen *, const gs_chart *);
