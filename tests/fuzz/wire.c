/* 16-bit values from the wire: vector instructions must give the same results as the code for a single value. */
#include <string.h>
#include "fuzz.h"
#include "sync/wire.h"

FUZZ(in) {
    enum { MOST = 64 };
    gs_wire wire = fuzz_byte(in) % 2 ? GS_WIRE_F16 : GS_WIRE_BF16;
    uint16_t bits[MOST] = {0}, back[MOST];
    float all[MOST], one, sum[MOST] = {0};
    size_t count = in->size / 2 < MOST ? in->size / 2 : MOST;
    fuzz_bytes(in, bits, 2 * count);
    gs_wire_widen(wire, all, bits, count);
    gs_wire_widen_add(wire, sum, bits, count);
    for (size_t i = 0; i < count; i++) {
        gs_wire_widen(wire, &one, &bits[i], 1);
        bool number = one == one; /* false for a NaN, whose bits may differ */
        if (number && memcmp(&one, &all[i], sizeof one) != 0)
            fuzz_wrong("%04x: %g and %g", bits[i], (double)one, (double)all[i]);
        if (number && sum[i] != one) fuzz_wrong("%04x: 0 + %g is %g", bits[i], (double)one, (double)sum[i]);
        if (number == (all[i] != all[i])) fuzz_wrong("%04x is a NaN for one of them", bits[i]);
    }
    gs_wire_narrow(wire, back, all, count);
    for (size_t i = 0; i < count; i++)
        if (all[i] == all[i] && back[i] != bits[i]) fuzz_wrong("%04x comes back as %04x", bits[i], back[i]);
}
