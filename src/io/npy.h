/* NumPy's array format, version 1.0: magic, header text padded to 64 bytes, little-endian data. */
#pragma once

#include <stddef.h>
#include "core/error.h"

/* Write an f32 array of shape (rows, columns), whole or not at all. GS_E_FILE. */
gs_status gs_npy_save(const char *path, const float *data, size_t rows, size_t columns);
