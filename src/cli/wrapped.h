/* Text in lines of at most 80 columns, and numbers for people. */
#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "core/error.h"

enum { GS_SCREEN_LEAST = 20, GS_SCREEN_DEFAULT = 80 };

/* The columns of a stream's screen: COLUMNS, else the terminal's, else 80; from GS_SCREEN_LEAST to 1000. */
int gs_screen_width(FILE *);

/* Print words in lines of 80 columns that begin at `margin`, where the cursor is already; "(default ...)" counts as one
 * word. */
void gs_print_wrapped(int margin, const char *text);

/* The same, but break lines after commas only: "9 steps, test accuracy 80.00 %" are two items. */
void gs_print_items(int margin, const char *text);

/* For standard error: wrapped on a terminal; unchanged elsewhere (for grep and a launcher) and if the text contains
 * line breaks. */
void gs_print_sentence(FILE *, const char *text);

/* A name in `width` columns; a longer name gets its own line and is not cut. */
void gs_print_name(FILE *, const char *name, int width);

/* A line of standard output. This function and the next print no control characters, such as those in file names. */
void gs_print_line(const char *format, ...) GS_PRINTF(1, 2);

/* "sync     auto chose ...", wrapped, with further lines at column 9. */
void gs_print_fact(const char *label, const char *format, ...) GS_PRINTF(2, 3);

/* 1234567 -> "1,234,567"; 0.4173, a slow model's speed, -> "0.42". The last four results stay valid. */
const char *gs_thousands(double number);

/* A NaN without its sign: printf shows "nan", never "-nan". */
double gs_shown(double number);

/* A share in percent, rounded to one decimal, for "%.1f %%": never "-0.0 %". */
double gs_percent(double share);
