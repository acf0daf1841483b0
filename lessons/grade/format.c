#include "lessons/grade/format.h"

#include <string.h>

#include "core/text.h"

const gs_format *const gs_formats[] = {
    &gs_format_csv, &gs_format_gradescope, &gs_format_json, &gs_format_junit, &gs_format_moodle, NULL,
};

gs_status gs_format_find(const char *name, const gs_format **format) {
    const char *names[sizeof gs_formats / sizeof *gs_formats] = {NULL};
    for (int i = 0; gs_formats[i]; i++) {
        names[i] = (*format = gs_formats[i])->name;
        if (strcmp(name, names[i]) == 0) return GS_OK;
    }
    return gs_no_such("--format", name, names);
}
