#include "comm/call_check.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "core/shard.h"

/* An element of any type, or the result of a reduction on the way. */
typedef union value {
    double real;
    uint64_t whole; /* the lower bits are those of an integer, two's complement */
} value;

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

static value element(const gs_call *c, int rank, size_t i) {
    static const double factors[] = {-2, -1, 1, 2, 0.5, -0.5}; /* products of up to 100 are exact in f32 */
    uint64_t word = mix(((uint64_t)rank << 40) + i + 1);
    if (!is_real(c->type)) return (value){.whole = word};
    if (gs_operation_reduces(c->operation) && c->reduction == GS_PRODUCT)
        return (value){.real = factors[word % 6]};
    return (value){.real = (double)(word % 2001) - 1000};
}

static int64_t as_signed(gs_type type, uint64_t whole) {
    return type == GS_I32 ? (int32_t)whole : type == GS_U8 ? (uint8_t)whole : (int64_t)whole;
}

static bool less(gs_type type, value a, value b) {
    return is_real(type) ? a.real < b.real : as_signed(type, a.whole) < as_signed(type, b.whole);
}

static value combine(const gs_call *c, value a, value b) {
    bool real = is_real(c->type);
    switch (c->reduction) {
    case GS_SUM:
        if (real) return (value){.real = a.real + b.real};
        return (value){.whole = a.whole + b.whole};
    case GS_PRODUCT:
        if (real) return (value){.real = a.real * b.real};
        return (value){.whole = a.whole * b.whole};
    case GS_MIN:
        return less(c->type, b, a) ? b : a;
    default:
        return less(c->type, a, b) ? b : a;
    }
}

static value reduced(const gs_call *c, int size, size_t i) {
    value v = element(c, size - 1, i);
    for (int r = size - 2; r >= 0; r--) v = combine(c, v, element(c, r, i));
    return v;
}

/* What element i of this rank's `out` must be. */
static value result(const gs_call *c, int rank, int size, size_t i) {
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

/* The bits of a value in memory. */
static void store(gs_type type, value v, void *to) {
    float f32 = (float)v.real;
    int32_t i32 = (int32_t)(uint32_t)v.whole;
    uint8_t u8 = (uint8_t)v.whole;
    const void *from = type == GS_F32   ? (void *)&f32
                       : type == GS_F64 ? (void *)&v.real
                       : type == GS_I32 ? (void *)&i32
                       : type == GS_U8  ? (void *)&u8
                                        : (void *)&v.whole;
    memcpy(to, from, gs_type_size(type));
}

static void print(gs_type type, const void *from, char *text, size_t size) {
    float f32;
    double f64;
    int32_t i32;
    int64_t i64;
    if (type == GS_F32)
        snprintf(text, size, "%.9g", (double)*(float *)memcpy(&f32, from, 4));
    else if (type == GS_F64)
        snprintf(text, size, "%.17g", *(double *)memcpy(&f64, from, 8));
    else if (type == GS_I32)
        snprintf(text, size, "%d", *(int32_t *)memcpy(&i32, from, 4));
    else if (type == GS_I64)
        snprintf(text, size, "%lld", (long long)*(int64_t *)memcpy(&i64, from, 8));
    else
        snprintf(text, size, "%d", *(const uint8_t *)from);
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

static gs_status verify(const gs_call *c, int rank, size_t i, size_t of, value wanted, const void *buffer,
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
