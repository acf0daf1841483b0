/* Copies of an operator's inputs, rounded to the device's precision: with these it computes as always. */
#pragma once

#include "cpu/cpu.h"

typedef struct gs_operand {
    gs_mem *place; /* becomes that of the copy */
    size_t count;
} gs_operand;

/* Nothing happens where the precision is f32. The copies stay until the next call for this device. */
gs_status GS_ISA(gs_cpu_rounded)(gs_device *, int count, const gs_operand *);
