/* Wraps text into lines of at most 80 columns, and formats numbers for people. */
#pragma once

#include <stdio.h>

#include "core/error.h"

enum { GS_SCREEN_LEAST = 20, GS_SCREEN_DEFAULT = 80 };

/* The width of a stream's screen: COLUMNS, else the terminal's, else 80 columns; limited to GS_SCREEN_LEAST .. 1000. */
int gs_screen_width(FILE *);

/* Print words in lines of 80 columns that begin at `margin`; the cursor is already there. "(default ...)" counts as one
 * word. */
void gs_print_wrapped(int margin, const char *text);

/* Like gs_print_wrapped, but break lines only after commas: "9 steps, test accuracy 80.00 %" is two items. */
void gs_print_items(int margin, const char *text);

/* For standard error: wraps on a terminal. Elsewhere (for grep or a launcher), or if it contains line breaks, the text
 * is printed unchanged. */
void gs_print_sentence(FILE *, const char *text);

/* Print a name in `width` columns; a longer name is not cut but gets its own line. */
void gs_print_name(FILE *, const char *name, int width);

/* Print a line on standard output. Like gs_print_fact, prints no control characters, even from file names. */
void gs_print_line(const char *format, ...) GS_PRINTF(1, 2);

/* "sync     auto chose ...", wrapped, with further lines at column 9. */
void gs_print_fact(const char *label, const char *format, ...) GS_PRINTF(2, 3);

/* 1234567 -> "1,234,567"; 0.4173, for instance a slow model's speed, -> "0.42". The last four results stay valid. */
const char *gs_thousands(double number);

/* Drops the sign of a NaN, so that printf shows "nan" and never "-nan". */
double gs_shown(double number);

/* Converts a share to percent, rounded to one decimal, for "%.1f %%": never "-0.0 %". */
double gs_percent(double share);
