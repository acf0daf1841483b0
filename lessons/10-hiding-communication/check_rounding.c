/* Lesson 10: the checks of 10.3 and 10.4: against a search among all numbers of a format, in double precision, and
 * training against training with f32. */
#include "check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BITS_ROW = 100 /* of drawn numbers */ };

static uint32_t bits_of(float f) {
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits) {
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

/* The number that 15 bits encode, without a sign; for infinity, the number that would come next. */
static double meaning(gs_wire wire, uint32_t h) {
    int places = wire == GS_WIRE_F16 ? 10 : 7, bias = wire == GS_WIRE_F16 ? 15 : 127;
    int exponent = (int)(h >> places), fraction = (int)(h & ((1u << places) - 1));
    if (exponent == 0) return ldexp(fraction, 1 - bias - places);
    return ldexp((1 << places) + fraction, exponent - bias - places);
}

static uint32_t infinity_of(gs_wire wire) {
    return wire == GS_WIRE_F16 ? 0x7c00 : 0x7f80;
}

/* The nearest number of the format, ties to even, by bisection. */
static uint32_t nearest(gs_wire wire, float f) {
    double size = fabs((double)f);
    uint32_t sign = signbit(f) ? 0x8000 : 0, low = 0, high = infinity_of(wire);
    if (size >= meaning(wire, high)) return sign | high;
    while (high - low > 1) { /* low <= size < high */
        uint32_t middle = (low + high) / 2;
        if (meaning(wire, middle) <= size)
            low = middle;
        else
            high = middle;
    }
    double below = size - meaning(wire, low), above = meaning(wire, high) - size;
    return sign | (below < above || (below == above && low % 2 == 0) ? low : high);
}

static gs_status check_rounding(gs_wire wire, float f, uint16_t got, float kept) {
    if (isnan(f)) {
        LAB_CHECK((got & 0x7fff) > infinity_of(wire),
                  "%s of a NaN (bits %08x): got %04x (%g), expected a NaN", gs_wire_name(wire), bits_of(f),
                  got, (double)kept);
        return GS_OK;
    }
    uint32_t wanted = nearest(wire, f);
    float is;
    gs_wire_widen(wire, &is, &(uint16_t){(uint16_t)wanted}, 1);
    LAB_CHECK(got == wanted, "%s of %.9g (%a, bits %08x): got %04x (%.9g), expected %04x (%.9g)",
              gs_wire_name(wire), (double)f, (double)f, bits_of(f), got, (double)kept, wanted, (double)is);
    return GS_OK;
}

/* Training with these 16 bits: near the weights of f32, and equal on all workers after each step. */
static gs_status check_wire_in_training(gs_wire wire, double near) {
    gs_settings plain = lab_short_run(SMALL_CNN, "cpu,cpu,cpu", 333, 20), s;
    double difference;
    plain.sync = "ring";
    s = plain;
    s.wire = wire;
    s.verify = 1;
    GS_TRY(lab_train_both(&plain, &s, &difference, NULL));
    LAB_CHECK(difference <= near,
              "train --sync ring --wire %s: after 20 steps the weights differ by %g from those with f32, "
              "expected at most %g",
              gs_wire_name(wire), difference, near);
    return GS_OK;
}

/* The numbers to try, in order. All of them travel in one call. */
typedef struct trials {
    size_t count, room;
    float *number;
} trials;

static void try(trials *t, float f) {
    if (t->count == t->room) {
        t->room = t->room > 0 ? 2 * t->room : 1024;
        t->number = realloc(t->number, t->room * sizeof *t->number);
        if (!t->number) gs_bug("no memory");
    }
    t->number[t->count++] = f;
}

static gs_status check_trials(gs_wire wire, const trials *t) {
    uint16_t *got = malloc(t->count * sizeof *got);
    float *kept = malloc(t->count * sizeof *kept);
    if (!got || !kept) gs_bug("no memory");
    memcpy(kept, t->number, t->count * sizeof *kept);
    gs_wire_narrow(wire, got, kept, t->count);
    gs_status status = GS_OK;
    for (size_t i = 0; i < t->count && status == GS_OK; i++)
        status = check_rounding(wire, t->number[i], got[i], kept[i]);
    free(got);
    free(kept);
    return status;
}

/* From easy to hard, then around every number of the format, then drawn bits. */
static gs_status check_format(gs_wire wire) {
    trials t = {0};
    static const float easy[] = {0, 1, -1, 0.5f, -2, 3, 100};
    static const uint32_t hard[] = {0x7f800000, 0xff800000, 0x7fc00000, 0x7f800001, 0x7fffffff, 0xffffffff,
                                    0x80000000, 0x00000001, 0x80000001, 0x7f7fffff, 0x007fffff, 0x33000000,
                                    0x33000001, 0x477fe000, 0x477fefff, 0x477ff000};
    for (size_t i = 0; i < sizeof easy / sizeof *easy; i++) try(&t, easy[i]);
    int places = wire == GS_WIRE_F16 ? 10 : 7;
    for (int quarter = 1; quarter < 16; quarter++) try(&t, (float)(1 + ldexp(quarter, -places - 2)));
    for (size_t i = 0; i < sizeof hard / sizeof *hard; i++) try(&t, float_of(hard[i]));
    for (uint32_t h = infinity_of(wire); h-- > 0;) {
        double low = meaning(wire, h), high = meaning(wire, h + 1);
        uint32_t number = bits_of((float)low), middle = bits_of((float)((low + high) / 2));
        for (uint32_t step = 0; step < 3; step++) {
            if (number > 0 || step > 0) try(&t, float_of(number + step - 1));
            try(&t, -float_of(middle + step - 1));
        }
    }
    for (size_t i = 0; i < 200000; i++) try(&t, float_of((uint32_t)lab_pick(BITS_ROW, i, (size_t)1 << 32)));
    gs_status status = check_trials(wire, &t);
    free(t.number);
    return status;
}

gs_status lab_check_bf16(void) {
    GS_TRY(check_format(GS_WIRE_BF16));
    return check_wire_in_training(GS_WIRE_BF16, 1.2e-3);
}

gs_status lab_check_f16(void) {
    GS_TRY(check_format(GS_WIRE_F16));
    return check_wire_in_training(GS_WIRE_F16, 5e-4);
}
