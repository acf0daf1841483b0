/* bench_jpeg FILE ...: pictures a second that one core decodes, by user CPU time: from memory to bytes of RGB, from a
 * file to those, and from a file to a training sample (3, 224, 224). For tests/bench_jpeg.sh. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include "data/resize.h"
#include "data/view.h"
#include "io/file.h"
#include "io/picture.h"

enum { SIZE = 224, MOST = 4096 };
static const double SECONDS = 2;

typedef struct file {
    char *data;
    size_t bytes;
} file;

static gs_picture_reader *reader;
static gs_resizer resizer;
static unsigned char sample[3 * SIZE * SIZE];
static file files[MOST];
static char **paths;

static double user_seconds(void) {
    struct rusage r;
    getrusage(RUSAGE_SELF, &r);
    return (double)r.ru_utime.tv_sec + 1e-6 * (double)r.ru_utime.tv_usec;
}

static gs_status decode(const file *f, const unsigned char **rgb, int *w, int *h) {
    GS_TRY(gs_picture_begin(reader, f->data, f->bytes, w, h));
    return gs_picture_decode(reader, 1, rgb, w, h);
}

static gs_status from_memory(int i) {
    const unsigned char *rgb;
    int w, h;
    return decode(&files[i], &rgb, &w, &h);
}

static gs_status from_file(int i) {
    file f;
    const unsigned char *rgb;
    int w, h;
    GS_TRY(gs_file_read(paths[i], 1 << 26, &f.data, &f.bytes));
    gs_status status = decode(&f, &rgb, &w, &h);
    free(f.data);
    return status;
}

static gs_status to_sample(int i) {
    file f;
    const unsigned char *rgb;
    int w, h;
    GS_TRY(gs_file_read(paths[i], 1 << 26, &f.data, &f.bytes));
    gs_status status = decode(&f, &rgb, &w, &h);
    free(f.data);
    GS_TRY(status);
    const gs_view v = gs_view_centre(w, h, SIZE);
    if (gs_resize(&resizer, rgb, w, v.across, v.down, SIZE, sample)) return GS_OK;
    return gs_fail(GS_E_MEMORY, "no memory");
}

static gs_status measure(const char *name, gs_status (*work)(int), int count) {
    long done = 0;
    const double start = user_seconds();
    double took = 0;
    while (took < SECONDS) {
        for (int i = 0; i < count; i++) GS_TRY(work(i));
        done += count;
        took = user_seconds() - start;
    }
    printf("%s %.0f\n", name, (double)done / took);
    return GS_OK;
}

static gs_status run(int count) {
    GS_TRY(gs_picture_reader_create(&reader));
    for (int i = 0; i < count; i++) GS_TRY(gs_file_read(paths[i], 1 << 26, &files[i].data, &files[i].bytes));
    GS_TRY(measure("memory", from_memory, count));
    GS_TRY(measure("file", from_file, count));
    return measure("sample", to_sample, count);
}

int main(int argc, char **argv) {
    paths = argv + 1;
    const int count = argc - 1 < MOST ? argc - 1 : MOST;
    if (count < 1) return 2;
    if (run(count) == GS_OK) return 0;
    fprintf(stderr, "bench-jpeg: %s\n", gs_message());
    return 1;
}
