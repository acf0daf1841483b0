/* Copying between a tensor and its shards on the ranks. */

#include "parallel/tensor.h"

size_t gs_tensor_count(const gs_param *part, int rank, int size) {
    const gs_tensor_rows r = gs_tensor_rows_of(part, rank, size);
    return r.count * r.floats;
}

void gs_tensor_get_shard(const gs_param *part, int rank, int size, float *to, const float *whole) {
    const gs_tensor_rows r = gs_tensor_rows_of(part, rank, size);
    for (size_t i = 0; i < r.count; i++)
        memcpy(to + i * r.part_step, whole + r.whole_first + i * r.whole_step, r.floats * sizeof *to);
}

void gs_tensor_put_shard(const gs_param *part, int rank, int size, const float *from, float *whole) {
    const gs_tensor_rows r = gs_tensor_rows_of(part, rank, size);
    for (size_t i = 0; i < r.count; i++)
        memcpy(whole + r.whole_first + i * r.whole_step, from + i * r.part_step, r.floats * sizeof *whole);
}
