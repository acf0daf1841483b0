/* Text in lines of at most 80 columns, and numbers as people read them. */
#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "core/error.h"

/* What there is to print on. */
typedef struct gs_screen {
    int width; /* columns, at least GS_SCREEN_LEAST */
    bool utf8;
} gs_screen;

enum { GS_SCREEN_LEAST = 20, GS_SCREEN_DEFAULT = 80 };

/* Of a stream: COLUMNS, else the terminal's width, else 80 columns. UTF-8: a terminal, and LC_ALL, LC_CTYPE or LANG
 * (the first of them that is set) names it. */
gs_screen gs_screen_of(FILE *);

/* At most 80 columns are used, and fewer on a narrower screen. */
int gs_screen_columns(const gs_screen *);

/* Print words, and begin a new line at `margin` where one of 80 columns is full; "(default ...)" is one word. The first
 * line has been begun and is at `margin`. */
void gs_print_wrapped(int margin, const char *text);

/* The same, but lines end after commas alone: "9 steps, test accuracy 80.00 %" are two items. */
void gs_print_items(int margin, const char *text);

/* For standard error: on a terminal in lines of its width, at most 80 columns; elsewhere, for grep and for a launcher,
 * and where the text has lines of its own, as it is. */
void gs_print_sentence(FILE *, const char *text);

/* A name in `width` columns; one that is too long has a line of its own, and is not cut. */
void gs_print_name(FILE *, const char *name, int width);

/* A line of standard output. Here and in what follows nothing controls the terminal, whatever a file is named. */
void gs_print_line(const char *format, ...) GS_PRINTF(1, 2);

/* "sync     auto chose ...", with further lines at column 9 where 80 are full. */
void gs_print_fact(const char *label, const char *format, ...) GS_PRINTF(2, 3);

/* 1234567 -> "1,234,567"; 0.4173, as the speed of a large model, -> "0.42". Four results may be in use. */
const char *gs_thousands(double number);

/* A NaN without a sign, which printf would show: "nan" says all there is to say, "-nan" makes one wonder. */
double gs_shown(double number);

/* A share in percent, rounded to one place behind the point, for "%.1f %%": never "-0.0 %". */
double gs_percent(double share);
