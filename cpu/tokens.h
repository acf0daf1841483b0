/* A token number is a float that holds a whole number, for these operators' x. */
#pragma once

/* The row of a table that x names; -1: x is not a whole number from 0 to rows - 1, or a NaN. */
static inline int gs_token_row(float x, int rows) {
    if (!(x >= 0 && x < (float)rows)) return -1;
    const int row = (int)x;
    return (float)row == x ? row : -1;
}
