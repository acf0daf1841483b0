/* The sentences of a launch, of any part of it. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "cli/draw/wrapped.h"
#include "cli/launch/launch.h"

void gs_launch_say(const char *format, ...) {
    char text[4000] = "gradsum launch: ";
    const size_t used = strlen(text);
    va_list args;
    va_start(args, format);
    vsnprintf(text + used, sizeof text - used, format, args);
    va_end(args);
    gs_print_sentence(stderr, text);
}
