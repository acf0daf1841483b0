/* Numbers are read and written with a decimal point, whichever locale the calling program has set: a German one would
 * write a comma, even to files. The Makefile includes this file before all others of the library, so the names below
 * mean these functions everywhere. Only the calling thread's locale changes, and only during the call. */
#pragma once

#include <locale.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* For calls into a library that obeys the locale: locale_t own = gs_c_locale(); ...; uselocale(own); */
locale_t gs_c_locale(void);

int gs_vsnprintf(char *to, size_t size, const char *format, va_list) __attribute__((format(printf, 3, 0)));
int gs_snprintf(char *to, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));
int gs_fprintf(FILE *, const char *format, ...) __attribute__((format(printf, 2, 3)));
int gs_asprintf(char **to, const char *format, ...) __attribute__((format(printf, 2, 3)));
int gs_sscanf(const char *text, const char *format, ...) __attribute__((format(scanf, 2, 3)));
double gs_strtod(const char *text, char **end);
float gs_strtof(const char *text, char **end);

#define vsnprintf gs_vsnprintf
#define snprintf gs_snprintf
#define fprintf gs_fprintf
#define asprintf gs_asprintf
#define sscanf gs_sscanf
#define strtod gs_strtod
#define strtof gs_strtof
