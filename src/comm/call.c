#include "comm/call.h"

#include <stdio.h>

#include "core/error.h"
#include "core/shard.h"

/* ---- types and reductions ---- */

/* `to` may be an operand itself, but never overlaps one at an offset, so the compiler may vectorize the loop. */
#if defined(__clang__)
#define NEVER_SHIFTED _Pragma("clang loop vectorize(assume_safety)")
#else
#define NEVER_SHIFTED _Pragma("GCC ivdep")
#endif

/* The loop for one type and one reduction. */
#define LOOP(name, type, value)                                                                              \
    static void name(void *to, const void *first, const void *second, size_t count) {                        \
        type *t = to;                                                                                        \
        const type *x = first, *y = second;                                                                  \
        NEVER_SHIFTED for (size_t i = 0; i < count; i++) {                                                   \
            const type a = x[i], b = y[i];                                                                   \
            t[i] = (type)(value);                                                                            \
        }                                                                                                    \
    }

/* LOOPS(f32, ...) defines f32_sum, f32_min and f32_max. Sums are computed in type `wide`, unsigned for integers, so
 * they wrap around. (a != a) is true only for a NaN; if b is NaN, both tests are false and b is chosen. */
#define LOOPS(name, type, wide)                                                                              \
    LOOP(name##_sum, type, (wide)a + (wide)b)                                                                \
    LOOP(name##_min, type, a < b || a != a ? a : b)                                                          \
    LOOP(name##_max, type, a > b || a != a ? a : b)

LOOPS(f32, float, float)
LOOPS(f64, double, double)
LOOPS(i32, int32_t, uint32_t)
LOOPS(i64, int64_t, uint64_t)
LOOPS(u8, uint8_t, unsigned)

#define ROW(name)                                                                                            \
    { name##_sum, name##_min, name##_max }
static const struct {
    const char *name;
    size_t size;
    gs_combine combine[GS_REDUCTIONS];
} types[GS_TYPES] = {
    [GS_F32] = {"f32", 4, ROW(f32)}, [GS_F64] = {"f64", 8, ROW(f64)}, [GS_I32] = {"i32", 4, ROW(i32)},
    [GS_I64] = {"i64", 8, ROW(i64)}, [GS_U8] = {"u8", 1, ROW(u8)},
};

static void check_type(gs_type type) {
    if ((unsigned)type >= GS_TYPES) gs_bug("there is no type %d", (int)type);
}

size_t gs_type_size(gs_type type) {
    check_type(type);
    return types[type].size;
}

static const char *type_name(gs_type type) {
    check_type(type);
    return types[type].name;
}

static const char *reduction_name(gs_reduction reduction) {
    static const char *const names[GS_REDUCTIONS] = {"sum", "min", "max"};
    if ((unsigned)reduction >= GS_REDUCTIONS) gs_bug("there is no reduction %d", (int)reduction);
    return names[reduction];
}

gs_combine gs_combine_of(gs_type type, gs_reduction reduction) {
    check_type(type);
    if ((unsigned)reduction >= GS_REDUCTIONS) gs_bug("there is no reduction %d", (int)reduction);
    return types[type].combine[reduction];
}

/* ---- operations ---- */

static const struct {
    const char *name;
    bool reduces;
    const char *root; /* the preposition before the root in messages; NULL: no root */
} operations[GS_OPERATIONS] = {
    [GS_SEND] = {"send", false, "to"},
    [GS_RECV] = {"recv", false, "from"},
    [GS_BROADCAST] = {"broadcast", false, "from"},
    [GS_ALL_REDUCE] = {"all_reduce", true, NULL},
    [GS_REDUCE] = {"reduce", true, "to"},
    [GS_ALL_GATHER] = {"all_gather", false, NULL},
    [GS_GATHER] = {"gather", false, "to"},
    [GS_SCATTER] = {"scatter", false, "from"},
    [GS_REDUCE_SCATTER] = {"reduce_scatter", true, NULL},
    [GS_ALL_TO_ALL] = {"all_to_all", false, NULL},
    [GS_BARRIER] = {"barrier", false, NULL},
};

const char *gs_operation_name(gs_operation operation) {
    if ((unsigned)operation >= GS_OPERATIONS) gs_bug("there is no operation %d", (int)operation);
    return operations[operation].name;
}

bool gs_operation_has_root(gs_operation operation) {
    return operations[operation].root != NULL;
}

bool gs_operation_is_in_place(gs_operation operation) {
    return operation == GS_BROADCAST || operation == GS_REDUCE || operation == GS_ALL_REDUCE;
}

const char *gs_call_text(const gs_call *c, bool full) {
    static _Thread_local char texts[2][96];
    static _Thread_local unsigned turn;
    const size_t size = sizeof texts[0];
    char *text = texts[turn++ % 2], how[24] = "", where[24] = "";
    const char *name = gs_operation_name(c->operation), *root = operations[c->operation].root;
    if (full && operations[c->operation].reduces)
        snprintf(how, sizeof how, " (%s)", reduction_name(c->reduction));
    if (full && root) snprintf(where, sizeof where, " %s rank %d", root, c->root);
    if (c->operation == GS_BARRIER)
        snprintf(text, size, "%s", name);
    else if ((c->operation == GS_SEND || c->operation == GS_RECV) && c->type == GS_U8)
        snprintf(text, size, "%s of %zu bytes %s rank %d", name, c->count, root, c->root);
    else
        snprintf(text, size, "%s of %zu %s%s%s", name, c->count, type_name(c->type), how, where);
    return text;
}

/*  63   62 .. 59    58 .. 56   55 .. 54    53 .. 42   41 .. 0
 *   1   operation   type       reduction   root       count */
enum { OPERATION_AT = 59, TYPE_AT = 56, REDUCTION_AT = 54, ROOT_AT = 42 };

uint64_t gs_call_pack(const gs_call *c) {
    const uint64_t most = ((uint64_t)1 << ROOT_AT) - 1, count = c->count < most ? c->count : most;
    return (uint64_t)1 << 63 | (uint64_t)c->operation << OPERATION_AT | (uint64_t)c->type << TYPE_AT |
           (uint64_t)c->reduction << REDUCTION_AT | (uint64_t)(c->root & 0xfff) << ROOT_AT | count;
}

bool gs_call_unpack(uint64_t word, gs_call *c) {
    const unsigned operation = word >> OPERATION_AT & 0xf, type = word >> TYPE_AT & 0x7;
    const unsigned reduction = word >> REDUCTION_AT & 0x3;
    if (word >> 63 == 0 || operation >= GS_OPERATIONS || type >= GS_TYPES || reduction >= GS_REDUCTIONS)
        return false;
    *c = (gs_call){.operation = (gs_operation)operation,
                   .count = (size_t)(word & (((uint64_t)1 << ROOT_AT) - 1)),
                   .type = (gs_type)type,
                   .reduction = (gs_reduction)reduction,
                   .root = (int)(word >> ROOT_AT & 0xfff)};
    return true;
}

void gs_call_compare(const gs_call *mine, const gs_call *other, const char *noun, int rank, int other_rank) {
    if (other->operation == mine->operation && other->count == mine->count && other->type == mine->type &&
        other->reduction == mine->reduction && other->root == mine->root)
        return;
    gs_bug("%s %d calls %s, %s %d calls %s", noun, rank, gs_call_text(mine, true), noun, other_rank,
           gs_call_text(other, true));
}

gs_call_bytes gs_call_bytes_of(const gs_call *c, int rank, int size) {
    size_t bytes = c->count * gs_type_size(c->type), all = bytes * (size_t)size;
    bool root = rank == c->root;
    switch (c->operation) {
    case GS_SEND:
        return (gs_call_bytes){bytes, 0};
    case GS_RECV:
    case GS_BROADCAST:
    case GS_ALL_REDUCE:
    case GS_REDUCE:
        return (gs_call_bytes){0, bytes};
    case GS_ALL_GATHER:
        return (gs_call_bytes){bytes, all};
    case GS_GATHER:
        return (gs_call_bytes){bytes, root ? all : 0};
    case GS_SCATTER:
        return (gs_call_bytes){root ? all : 0, bytes};
    case GS_REDUCE_SCATTER:
        return (gs_call_bytes){bytes, gs_shard_of(c->count, rank, size).count * gs_type_size(c->type)};
    case GS_ALL_TO_ALL:
        return (gs_call_bytes){all, all};
    default:
        return (gs_call_bytes){0, 0};
    }
}
