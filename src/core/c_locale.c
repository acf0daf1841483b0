#include "core/c_locale.h"

#include <pthread.h>

#undef vsnprintf
#undef snprintf
#undef fprintf
#undef asprintf
#undef sscanf
#undef strtod
#undef strtof

static locale_t c;

static void make(void) {
    c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

locale_t gs_c_locale(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make);
    return uselocale(c);
}

/* The call in the C locale; `result` is what it returns. */
#define IN_C(result, call)                                                                                   \
    const locale_t own = gs_c_locale();                                                                      \
    const result got = call;                                                                                 \
    uselocale(own);                                                                                          \
    return got

#define IN_C_WITH_REST(call)                                                                                 \
    va_list rest;                                                                                            \
    va_start(rest, format);                                                                                  \
    const int got = call;                                                                                    \
    va_end(rest);                                                                                            \
    return got

static int put(FILE *f, const char *format, va_list rest) {
    IN_C(int, vfprintf(f, format, rest));
}

static int make_text(char **to, const char *format, va_list rest) {
    IN_C(int, vasprintf(to, format, rest));
}

static int scan(const char *text, const char *format, va_list rest) {
    IN_C(int, vsscanf(text, format, rest));
}

int gs_vsnprintf(char *to, size_t size, const char *format, va_list rest) {
    IN_C(int, vsnprintf(to, size, format, rest));
}

int gs_snprintf(char *to, size_t size, const char *format, ...) {
    IN_C_WITH_REST(gs_vsnprintf(to, size, format, rest));
}

int gs_fprintf(FILE *f, const char *format, ...) {
    IN_C_WITH_REST(put(f, format, rest));
}

int gs_asprintf(char **to, const char *format, ...) {
    IN_C_WITH_REST(make_text(to, format, rest));
}

int gs_sscanf(const char *text, const char *format, ...) {
    IN_C_WITH_REST(scan(text, format, rest));
}

double gs_strtod(const char *text, char **end) {
    IN_C(double, strtod(text, end));
}

float gs_strtof(const char *text, char **end) {
    IN_C(float, strtof(text, end));
}
