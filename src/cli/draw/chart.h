/* A chart of points, both axes logarithmic, made of characters: at most 80 columns, 19 lines.
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
 * A point may have a range, such as that of several seeds: a line of '|' through it.
 */
#pragma once

#include "cli/draw/wrapped.h"

typedef struct gs_chart_point {
    double x, y;        /* > 0; y: infinite or no number for a point in the row "never" */
    double least, most; /* the range; no range where they are 0 or no numbers */
} gs_chart_point;

typedef struct gs_chart {
    const char *title;
    const char *measured;         /* for the legend: what the points are */
    const char *range;            /* for the legend: what the range is, or NULL */
    const char *ideal;            /* for the legend: what the line y = y0 x0 / x through the first point is */
    const char *never;            /* for the legend: what the points without y are */
    const gs_chart_point *points; /* with x growing */
    int count;                    /* > 0 */
} gs_chart;

/* Without a single y it says so in one line. */
void gs_chart_draw(FILE *, const gs_screen *, const gs_chart *);
