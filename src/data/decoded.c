#include "data/decoded.h"
#include "core/usable.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>
#include "io/file.h"

enum { HEADER = 128, RECORD_HEAD = 5 /* state, sum */ };

enum { EMPTY, FULL, IN_WORK }; /* of a place in memory */

struct gs_decoded {
    size_t count, bytes;
    unsigned char *memory, *state; /* NULL: a file */
    int fd;
};

static gs_status make(size_t count, size_t bytes, gs_decoded **out) {
    gs_decoded *d = *out = calloc(1, sizeof *d);
    if (!d) return gs_fail(GS_E_MEMORY, "no memory for a cache of pictures");
    *d = (gs_decoded){.count = count, .bytes = bytes, .fd = -1};
    return GS_OK;
}

/* ---- memory ---- */

gs_status gs_decoded_in_memory(size_t count, size_t bytes, gs_decoded **out) {
    const double all = (double)count * (double)bytes, free_bytes = gs_usable_here().free;
    *out = NULL;
    if (free_bytes > 0 && all > 0.9 * free_bytes)
        return gs_fail(
            GS_E_MEMORY,
            "--cache memory: %zu pictures of %zu bytes are %.3g GB, and %.3g GB are free; --cache DIR "
            "keeps them in a file",
            count, bytes, all / 1e9, free_bytes / 1e9);
    gs_decoded *d;
    GS_TRY(make(count, bytes, &d));
    const int private = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE; /* a page is taken when it is written */
    void *memory = mmap(NULL, bytes * count, PROT_READ | PROT_WRITE, private, -1, 0);
    d->memory = memory == MAP_FAILED ? NULL : memory;
    d->state = calloc(count, 1);
    *out = d;
    if (d->memory && d->state) return GS_OK;
    gs_decoded_free(d);
    *out = NULL;
    return gs_fail(GS_E_MEMORY, "--cache memory: no memory for %zu pictures of %zu bytes", count, bytes);
}

/* ---- a file ---- */

static void make_header(char header[HEADER], const char *key, size_t count, size_t bytes) {
    memset(header, '\n', HEADER);
    const int length = snprintf(header, HEADER, "gradsum-pictures 1 %.64s %zu %zu", key, count, bytes);
    header[length < HEADER ? length : HEADER - 1] = '\n';
}

/* All bytes, or false. */
static bool read_at(int fd, void *to, size_t bytes, uint64_t at) {
    for (unsigned char *p = to; bytes > 0;) {
        const ssize_t got = pread(fd, p, bytes, (off_t)at);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return false;
        p += got;
        at += (uint64_t)got;
        bytes -= (size_t)got;
    }
    return true;
}

gs_status gs_decoded_open(const char *path, const char *key, size_t count, size_t bytes, gs_decoded **out) {
    char wanted[HEADER], found[HEADER];
    uint64_t size;
    int fd;
    *out = NULL;
    if (gs_file_open(path, &fd, &size) != GS_OK) return GS_OK;
    make_header(wanted, key, count, bytes);
    if (size == HEADER + (uint64_t)count * (RECORD_HEAD + bytes) && read_at(fd, found, HEADER, 0) &&
        memcmp(wanted, found, HEADER) == 0) {
        gs_status status = make(count, bytes, out);
        if (status == GS_OK)
            (*out)->fd = fd;
        else
            close(fd);
        return status;
    }
    close(fd);
    return GS_OK;
}

static void put_sum(unsigned char to[4], uint32_t sum) {
    for (int k = 0; k < 4; k++) to[k] = (unsigned char)(sum >> 8 * k);
}

static gs_status write_blocks(FILE *f, const char *path, size_t count, size_t bytes, gs_decoded_reader *read,
                              void *context, unsigned char *block) {
    unsigned char states[GS_DECODED_BLOCK], head[RECORD_HEAD];
    for (size_t first = 0; first < count; first += GS_DECODED_BLOCK) {
        const size_t n = count - first < GS_DECODED_BLOCK ? count - first : GS_DECODED_BLOCK;
        memset(block, 0, n * bytes);
        GS_TRY(read(context, first, n, block, states));
        for (size_t i = 0; i < n; i++) {
            head[0] = states[i];
            put_sum(head + 1, (uint32_t)crc32_z(0, block + i * bytes, bytes));
            if (fwrite(head, RECORD_HEAD, 1, f) != 1 || fwrite(block + i * bytes, bytes, 1, f) != 1)
                return gs_fail(GS_E_FILE, "cannot write %s: %s", path, strerror(errno));
        }
    }
    return GS_OK;
}

gs_status gs_decoded_write(const char *path, const char *key, size_t count, size_t bytes,
                           gs_decoded_reader *read, void *context) {
    char header[HEADER];
    gs_file_writer w;
    unsigned char *block = malloc(GS_DECODED_BLOCK * bytes);
    if (!block) return gs_fail(GS_E_MEMORY, "no memory for %d pictures", GS_DECODED_BLOCK);
    gs_status status = gs_file_writer_open(path, &w);
    if (status == GS_OK) {
        make_header(header, key, count, bytes);
        if (fwrite(header, HEADER, 1, w.file) != 1)
            status = gs_fail(GS_E_FILE, "cannot write %s: %s", path, strerror(errno));
        if (status == GS_OK) status = write_blocks(w.file, path, count, bytes, read, context, block);
        if (status == GS_OK) status = gs_file_writer_commit(&w);
        gs_file_writer_discard(&w);
    }
    free(block);
    return status;
}

/* ---- one picture ---- */

static gs_decoded_state get_from_file(const gs_decoded *d, size_t i, unsigned char *to) {
    unsigned char head[RECORD_HEAD], sum[4];
    const uint64_t at = HEADER + (uint64_t)i * (RECORD_HEAD + d->bytes);
    if (!read_at(d->fd, head, RECORD_HEAD, at) || !read_at(d->fd, to, d->bytes, at + RECORD_HEAD))
        return GS_DECODED_MISSING;
    put_sum(sum, (uint32_t)crc32_z(0, to, d->bytes));
    if (memcmp(sum, head + 1, sizeof sum) != 0) return GS_DECODED_MISSING;
    return head[0] == GS_DECODED_HERE || head[0] == GS_DECODED_BROKEN ? head[0] : GS_DECODED_MISSING;
}

gs_decoded_state gs_decoded_get(gs_decoded *d, size_t i, unsigned char *to) {
    if (i >= d->count) gs_bug("gs_decoded_get: picture %zu of %zu", i, d->count);
    if (!d->memory) return get_from_file(d, i, to);
    if (__atomic_load_n(&d->state[i], __ATOMIC_ACQUIRE) != FULL) return GS_DECODED_MISSING;
    memcpy(to, d->memory + i * d->bytes, d->bytes);
    return GS_DECODED_HERE;
}

void gs_decoded_put(gs_decoded *d, size_t i, const unsigned char *from) {
    unsigned char empty = EMPTY;
    if (!d->memory || !__atomic_compare_exchange_n(&d->state[i], &empty, IN_WORK, false, __ATOMIC_ACQUIRE,
                                                   __ATOMIC_RELAXED))
        return;
    memcpy(d->memory + i * d->bytes, from, d->bytes);
    __atomic_store_n(&d->state[i], FULL, __ATOMIC_RELEASE);
}

void gs_decoded_free(gs_decoded *d) {
    if (!d) return;
    if (d->memory) munmap(d->memory, d->count * d->bytes);
    if (d->fd >= 0) close(d->fd);
    free(d->state);
    free(d);
}
