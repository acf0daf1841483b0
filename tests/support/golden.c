#include "tests/support/golden.h"
#include "tests/support/files.h"

#include <math.h>
#include "tests/support/operators.h"

typedef struct golden {
    size_t count, stride, stored;
    double checksum, value[256];
} golden;

static char *find_line(char *text, const char *start) {
    size_t length = strlen(start);
    for (char *line = text; line && *line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL)
        if (strncmp(line, start, length) == 0 && strchr(" \n", line[length])) return line + length;
    return NULL;
}

static void load(const char *file, const char *name, const char *tensor, golden *g) {
    char path[128], heading[160];
    snprintf(path, sizeof path, "tests/golden/%s.txt", file);
    char *text = gs_test_text(gs_test_source(path), NULL);
    snprintf(heading, sizeof heading, "case %s", name);
    char *part = find_line(text, heading);
    if (!part) fail_msg("%s has no case %s: run tests/golden/make.py", path, name);
    char *next = strstr(part, "\ncase ");
    if (next) next[1] = '\0';
    char *line = find_line(part + 1, tensor);
    if (!line) fail_msg("%s: case %s has no %s", path, name, tensor);
    g->count = strtoul(line, &line, 10);
    g->stride = strtoul(line, &line, 10);
    g->checksum = strtod(line, &line);
    g->stored = g->stride ? (g->count + g->stride - 1) / g->stride : 0;
    assert_in_range(g->stored, 1, sizeof g->value / sizeof *g->value);
    for (size_t i = 0; i < g->stored; i++) g->value[i] = strtod(line, &line);
}

void golden_check(const char *file, const char *name, const char *tensor, const float *got, size_t count,
                  double tolerance, const char *device) {
    golden g;
    load(file, name, tensor, &g);
    assert_int_equal(count, g.count);
    double squares = 0, checksum = 0;
    for (size_t i = 0; i < g.stored; i++) squares += g.value[i] * g.value[i];
    double rms = sqrt(squares / (double)g.stored);
    for (size_t i = 0; i < g.stored; i++) {
        double off = fabs(got[i * g.stride] - g.value[i]), allowed = tolerance * (fabs(g.value[i]) + rms);
        if (!(off <= allowed))
            fail_msg("%s on %s: %s[%zu] is %.9g, PyTorch has %.9g: off by %.2g, tolerance %.2g", name, device,
                     tensor, i * g.stride, (double)got[i * g.stride], g.value[i], off, allowed);
    }
    for (size_t i = 0; i < count; i++) checksum += (double)got[i] * (double)test_value(i, SALT_CHECK);
    double allowed = tolerance * rms * (1 + sqrt((double)count));
    if (!(fabs(checksum - g.checksum) <= allowed))
        fail_msg("%s on %s: %s has the checksum %.9g, PyTorch's has %.9g: off by %.2g, tolerance %.2g", name,
                 device, tensor, checksum, g.checksum, fabs(checksum - g.checksum), allowed);
}

void golden_check_int(const char *file, const char *name, const char *tensor, const int *got, size_t count,
                      const char *device) {
    golden g;
    load(file, name, tensor, &g);
    assert_int_equal(count, g.count);
    double checksum = 0;
    for (size_t i = 0; i < count; i++) checksum += got[i] * (double)test_value(i, SALT_CHECK);
    for (size_t i = 0; i < g.stored; i++)
        if (got[i * g.stride] != (int)g.value[i])
            fail_msg("%s on %s: %s[%zu] is %d, PyTorch has %d", name, device, tensor, i * g.stride,
                     got[i * g.stride], (int)g.value[i]);
    /* the file's checksum is printed with 9 digits */
    if (fabs(checksum - g.checksum) > 1e-8 * fabs(g.checksum))
        fail_msg("%s on %s: %s has the checksum %.9g, PyTorch's has %.9g", name, device, tensor, checksum,
                 g.checksum);
}
