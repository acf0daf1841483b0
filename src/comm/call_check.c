#include "comm/call_check.h"

#include <stdio.h>
#include <string.h>

#include "core/shard.h"

/* Elements are whole numbers. Integer types keep their lower bits (two's complement); for real types the numbers are
 * small, so that their sums are exact. */
static bool is_real(gs_type type) {
    return type == GS_F32 || type == GS_F64;
}

/* The finalizer of SplitMix64: mix64variant13 of Steele, Lea, Flood, "Fast splittable pseudorandom number generators"
 * (OOPSLA 2014). */
static uint64_t mix(uint64_t x) {
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static uint64_t element(const gs_call *c, int rank, size_t i) {
    const uint64_t word = mix(((uint64_t)rank << 40) + i + 1);
    return is_real(c->type) ? word % 2001 - 1000 : word;
}

static int64_t as_signed(gs_type type, uint64_t x) {
    return type == GS_I32 ? (int32_t)x : type == GS_U8 ? (uint8_t)x : (int64_t)x;
}

static uint64_t combine(const gs_call *c, uint64_t a, uint64_t b) {
    const bool less = as_signed(c->type, a) < as_signed(c->type, b);
    return c->reduction == GS_SUM ? a + b : less == (c->reduction == GS_MIN) ? a : b;
}

static uint64_t reduced(const gs_call *c, int size, size_t i) {
    uint64_t v = element(c, size - 1, i);
    for (int r = size - 2; r >= 0; r--) v = combine(c, v, element(c, r, i));
    return v;
}

/* The right value of element i of this rank's `out`. */
static uint64_t result(const gs_call *c, int rank, int size, size_t i) {
    size_t n = c->count, mine = (size_t)rank * n;
    switch (c->operation) {
    case GS_RECV:
    case GS_BROADCAST:
        return element(c, c->root, i);
    case GS_ALL_REDUCE:
        return reduced(c, size, i);
    case GS_REDUCE:
        return rank == c->root ? reduced(c, size, i) : element(c, rank, i);
    case GS_SCATTER:
        return element(c, c->root, mine + i);
    case GS_REDUCE_SCATTER:
        return reduced(c, size, gs_shard_of(n, rank, size).first + i);
    case GS_ALL_TO_ALL:
        return element(c, (int)(i / n), mine + i % n);
    default: /* all_gather, gather */
        return element(c, (int)(i / n), i % n);
    }
}

/* Write v into memory as an element of this type. */
static void store(gs_type type, uint64_t v, void *to) {
    const double f64 = (double)(int64_t)v;
    const float f32 = (float)f64;
    const int32_t i32 = (int32_t)(uint32_t)v;
    const uint8_t u8 = (uint8_t)v;
    const void *const from[GS_TYPES] = {
        [GS_F32] = &f32, [GS_F64] = &f64, [GS_I32] = &i32, [GS_I64] = &v, [GS_U8] = &u8};
    memcpy(to, from[type], gs_type_size(type));
}

static void print(gs_type type, const void *from, char *text, size_t size) {
    float f32 = 0;
    double f64 = 0;
    uint64_t bits = 0;
    memcpy(type == GS_F32   ? (void *)&f32
           : type == GS_F64 ? (void *)&f64
                            : (void *)&bits,
           from, gs_type_size(type)); /* this program assumes little-endian memory */
    if (is_real(type))
        snprintf(text, size, "%.17g", type == GS_F32 ? (double)f32 : f64);
    else
        snprintf(text, size, "%lld", (long long)as_signed(type, bits));
}

void gs_call_fill(const gs_call *c, int rank, int size, void *in, void *out) {
    gs_call_bytes bytes = gs_call_bytes_of(c, rank, size);
    size_t width = gs_type_size(c->type);
    bool brings = gs_operation_is_in_place(c->operation) && (c->operation != GS_BROADCAST || rank == c->root);
    for (size_t i = 0; i < bytes.in / width; i++)
        store(c->type, element(c, rank, i), (unsigned char *)in + i * width);
    for (size_t i = 0; i < bytes.out / width; i++) {
        unsigned char *to = (unsigned char *)out + i * width;
        store(c->type, brings ? element(c, rank, i) : result(c, rank, size, i), to);
        for (size_t k = 0; k < width && !brings; k++) to[k] ^= 0x5a;
    }
}

static gs_status verify(const gs_call *c, int rank, size_t i, size_t of, uint64_t wanted, const void *buffer,
                        const char *where) {
    unsigned char bits[8];
    const unsigned char *got = (const unsigned char *)buffer + i * gs_type_size(c->type);
    store(c->type, wanted, bits);
    if (memcmp(got, bits, gs_type_size(c->type)) == 0) return GS_OK;
    char is[40], want[40];
    print(c->type, got, is, sizeof is);
    print(c->type, bits, want, sizeof want);
    return gs_fail(GS_E_FORMAT, "%s: rank %d has %s in element %zu of %zu%s, wanted %s",
                   gs_call_text(c, true), rank, is, i, of, where, want);
}

gs_status gs_call_verify(const gs_call *c, int rank, int size, const void *in, const void *out) {
    gs_call_bytes bytes = gs_call_bytes_of(c, rank, size);
    size_t width = gs_type_size(c->type), ins = bytes.in / width, outs = bytes.out / width;
    for (size_t i = 0; i < outs; i++) GS_TRY(verify(c, rank, i, outs, result(c, rank, size, i), out, ""));
    for (size_t i = 0; i < ins; i++)
        GS_TRY(verify(c, rank, i, ins, element(c, rank, i), in, " of its input"));
    return GS_OK;
}
