/* Event files for TensorBoard. A file is a sequence of records:
 *
 *     uint64 length | uint32 crc of these 8 bytes | length bytes of data | uint32 crc of this data    all little-endian
 *
 * and each record is an Event of event.proto; the first one holds the file's version. A crc here is CRC-32C
 * (Castagnoli), rotated and increased by a constant, because a plain crc of data that contains crcs is weak.
 *
 * Source: record_writer.h of TensorFlow (tensorflow/core/lib/io).
 */
#include "log/internal.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "comm/device.h"
#include "log/event.pb-c.h"

struct gs_events {
    char *path;
    FILE *file;
};

/* ---- records ---- */

uint32_t gs_crc32c(const void *data, size_t bytes) {
    static uint32_t table[256];
    const unsigned char *p = data;
    uint32_t crc = 0xffffffff;
    if (!table[1]) /* only the thread that writes the log gets here */
        for (uint32_t i = 0; i < 256; i++) {
            uint32_t c = i;
            for (int k = 0; k < 8; k++) c = c & 1 ? 0x82f63b78 ^ (c >> 1) : c >> 1;
            table[i] = c;
        }
    for (size_t i = 0; i < bytes; i++) crc = table[(crc ^ p[i]) & 0xff] ^ (crc >> 8);
    return crc ^ 0xffffffff;
}

static uint32_t masked(uint32_t crc) {
    return ((crc >> 15) | (crc << 17)) + 0xa282ead8;
}

static void put(uint8_t *to, uint64_t number, int bytes) {
    for (int i = 0; i < bytes; i++) to[i] = (uint8_t)(number >> (8 * i));
}

static gs_status cannot_write(const gs_events *e) {
    return gs_fail(GS_E_FILE, "cannot write %s: %s", e->path, strerror(errno));
}

static gs_status write_event(gs_events *e, const GsTb__Event *event) {
    size_t n = gs_tb__event__get_packed_size(event);
    uint8_t head[12], tail[4], *packed;
    GS_TRY(GS_NEW(packed, n, "an event of %zu bytes", n));
    gs_tb__event__pack(event, packed);
    put(head, n, 8);
    put(head + 8, masked(gs_crc32c(head, 8)), 4);
    put(tail, masked(gs_crc32c(packed, n)), 4);
    const bool written = fwrite(head, sizeof head, 1, e->file) == 1 && fwrite(packed, n, 1, e->file) == 1 &&
                         fwrite(tail, sizeof tail, 1, e->file) == 1 && fflush(e->file) == 0;
    const gs_status status = written ? GS_OK : cannot_write(e);
    free(packed);
    return status;
}

static double seconds_since_1970(void) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static gs_status write_values(gs_events *e, uint64_t step, GsTb__Value *values, size_t count) {
    GsTb__Value *list[16];
    GsTb__Summary summary = GS_TB__SUMMARY__INIT;
    GsTb__Event event = GS_TB__EVENT__INIT;
    for (size_t i = 0; i < count; i++) list[i] = &values[i];
    summary.n_value = count;
    summary.value = list;
    event.wall_time = seconds_since_1970();
    event.step = (int64_t)step;
    event.what_case = GS_TB__EVENT__WHAT_SUMMARY;
    event.summary = &summary;
    return write_event(e, &event);
}

/* The first pass finds the range, the second one counts the values. */
void gs_histogram_of(gs_histogram *h, const float *x, size_t count, float scale) {
    *h = (gs_histogram){.min = INFINITY, .max = -INFINITY};
    for (size_t i = 0; i < count; i++) {
        const double v = (double)(x[i] * scale);
        if (!isfinite(v)) continue;
        h->num++;
        h->sum += v;
        h->sum_squares += v * v;
        h->min = v < h->min ? v : h->min;
        h->max = v > h->max ? v : h->max;
    }
    if (!(h->num > 0)) h->min = h->max = 0;
    h->buckets = h->max > h->min ? GS_BUCKETS : h->num > 0;
    const double width = (h->max - h->min) / GS_BUCKETS;
    for (size_t b = 0; b < h->buckets; b++) h->limit[b] = h->min + (double)(b + 1) * width;
    for (size_t i = 0; i < count; i++) {
        const double v = (double)(x[i] * scale);
        if (!isfinite(v)) continue;
        const size_t b = width > 0 ? (size_t)((v - h->min) / width) : 0;
        h->bucket[b < h->buckets ? b : h->buckets - 1]++; /* the maximum belongs to the last bucket */
    }
}

/* ---- contents of the events ---- */

gs_status gs_events_numbers(gs_events *e, uint64_t step, const gs_log_number *numbers, int count) {
    enum { MOST = 16 };
    GsTb__Value v[MOST];
    size_t n = 0;
    for (int i = 0; i < count && n < MOST; i++) {
        if (!numbers[i].tag) continue;
        v[n] = (GsTb__Value)GS_TB__VALUE__INIT;
        v[n].tag = (char *)numbers[i].tag;
        v[n].value_case = GS_TB__VALUE__VALUE_SIMPLE_VALUE;
        v[n++].simple_value = (float)numbers[i].value;
    }
    return write_values(e, step, v, n);
}

static gs_status write_histogram(gs_events *e, uint64_t step, const char *of, const gs_param *p,
                                 const float *x, float scale) {
    char tag[96];
    GsTb__Histogram histogram = GS_TB__HISTOGRAM__INIT;
    GsTb__Value value = GS_TB__VALUE__INIT;
    gs_histogram h;
    gs_histogram_of(&h, x + p->at, p->count, scale);
    snprintf(tag, sizeof tag, "%s/%s", of, p->name);
    histogram.min = h.min;
    histogram.max = h.max;
    histogram.num = h.num;
    histogram.sum = h.sum;
    histogram.sum_squares = h.sum_squares;
    histogram.n_bucket = histogram.n_bucket_limit = h.buckets;
    histogram.bucket = h.bucket;
    histogram.bucket_limit = h.limit;
    value.tag = tag;
    value.value_case = GS_TB__VALUE__VALUE_HISTO;
    value.histo = &histogram;
    return write_values(e, step, &value, 1);
}

static gs_status write_all(gs_events *e, uint64_t step, gs_model *m, const char *of, const float *host,
                           float scale) {
    gs_status status = GS_OK;
    for (int i = 0; i < m->param_count && status == GS_OK; i++)
        status = write_histogram(e, step, of, m->param[i], host, scale);
    return status;
}

gs_status gs_events_layers(gs_events *e, uint64_t step, gs_model *m, float scale) {
    float *host;
    void *mapped;
    GS_TRY(gs_model_map_weights(m, &host));
    gs_status status = write_all(e, step, m, "weights", host, 1), unmapped = gs_model_unmap_weights(m, host);
    if (status == GS_OK) status = unmapped;
    if (status != GS_OK || !(scale > 0)) return status;
    GS_TRY(m->device->ops->map(m->device, m->gradients, m->params * sizeof(float), &mapped));
    return gs_device_unmap_after(m->device, m->gradients, mapped,
                                 write_all(e, step, m, "gradients", mapped, scale));
}

/* ---- open, close ---- */

gs_status gs_events_open(const char *folder, gs_events **out) {
    char host[65] = "";
    gs_events *e;
    *out = NULL;
    GS_TRY(GS_NEW(e, 1, "a log"));
    *out = e;
    gethostname(host, sizeof host - 1);
    if (asprintf(&e->path, "%s/events.out.tfevents.%.0f.%s", folder, seconds_since_1970(),
                 *host ? host : "host") < 0) {
        e->path = NULL;
        return gs_fail(GS_E_MEMORY, "no memory for a log");
    }
    e->file = fopen(e->path, "wbx");
    if (!e->file) return cannot_write(e);
    GsTb__Event first = GS_TB__EVENT__INIT;
    first.wall_time = seconds_since_1970();
    first.what_case = GS_TB__EVENT__WHAT_FILE_VERSION;
    first.file_version = (char *)"brain.Event:2";
    return write_event(e, &first);
}

gs_status gs_events_close(gs_events *e, bool keep) {
    if (!e) return GS_OK;
    const gs_status status = e->file && keep && fsync(fileno(e->file)) != 0 ? cannot_write(e) : GS_OK;
    if (e->file) fclose(e->file);
    if (e->file && !keep) unlink(e->path);
    free(e->path);
    free(e);
    return status;
}
