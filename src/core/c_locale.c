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

/* Return the result of `call` in the C locale. */
#define RETURN_IN_C(call)                                                                                    \
    const locale_t own = gs_c_locale();                                                                      \
    const __typeof__(call) got = call;                                                                       \
    uselocale(own);                                                                                          \
    return got

/* RETURN_IN_C for a function with `...`; declares `rest`, the arguments after `format`. */
#define RETURN_IN_C_WITH_REST(call)                                                                          \
    va_list rest;                                                                                            \
    va_start(rest, format);                                                                                  \
    const locale_t own = gs_c_locale();                                                                      \
    const int got = call;                                                                                    \
    uselocale(own);                                                                                          \
    va_end(rest);                                                                                            \
    return got

int gs_vsnprintf(char *to, size_t size, const char *format, va_list rest) {
    RETURN_IN_C(vsnprintf(to, size, format, rest));
}

int gs_snprintf(char *to, size_t size, const char *format, ...) {
    RETURN_IN_C_WITH_REST(vsnprintf(to, size, format, rest));
}

int gs_fprintf(FILE *f, const char *format, ...) {
    RETURN_IN_C_WITH_REST(vfprintf(f, format, rest));
}

int gs_asprintf(char **to, const char *format, ...) {
    RETURN_IN_C_WITH_REST(vasprintf(to, format, rest));
}

int gs_sscanf(const char *text, const char *format, ...) {
    RETURN_IN_C_WITH_REST(vsscanf(text, format, rest));
}

double gs_strtod(const char *text, char **end) {
    RETURN_IN_C(strtod(text, end));
}

float gs_strtof(const char *text, char **end) {
    RETURN_IN_C(strtof(text, end));
}
