/* A model built by hand with only what a weight file needs, and weight files with handwritten headers. */
#pragma once

#include "tests/support/test.h"

/* conv 2 1x3, flatten, linear 2 no_bias; the input is (1, 1, 4). */
extern gs_model hand_made;
extern const float hand_made_values[16];

/* Fragments of the file's header. */
#define METADATA                                                                                             \
    "\"__metadata__\":{\"format\":\"pt\",\"input\":\"1x1x4\",\"mean\":\"0.25\",\"std\":\"0.100000001\","     \
    "\"model\":\"conv 2 1x3, flatten, linear 2 "                                                             \
    "no_bias\"}"
#define CONV_W "\"0.weight\":{\"dtype\":\"F32\",\"shape\":[2,1,1,3],\"data_offsets\":[0,24]}"
#define CONV_B "\"0.bias\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[24,32]}"
#define LINEAR_W "\"2.weight\":{\"dtype\":\"F32\",\"shape\":[2,4],\"data_offsets\":[32,64]}"
#define GOOD "{" METADATA "," CONV_W "," CONV_B "," LINEAR_W "}"

/* The path of a file in a new folder. */
const char *hand_made_path(void);

/* Writes a file with this header and the first `count` bytes of the values. */
void hand_made_write(const char *path, const char *header, size_t count);
