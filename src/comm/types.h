/* What collectives move and how they reduce it. */
#pragma once

#include <stddef.h>

typedef enum gs_type { GS_F32, GS_F64, GS_I32, GS_I64, GS_U8, GS_TYPES } gs_type;

/* How a reduction combines two values:
 *
 *     GS_SUM, GS_PRODUCT   a + b, a b; integers wrap around (modulo 2^32, 2^64, 2^8)
 *     GS_MIN, GS_MAX       NaN if a or b is one, so that no rank's NaN is lost; of -0 and +0 either
 */
typedef enum gs_reduction { GS_SUM, GS_PRODUCT, GS_MIN, GS_MAX, GS_REDUCTIONS } gs_reduction;

size_t gs_type_size(gs_type);                /* in bytes */
const char *gs_type_name(gs_type);           /* "f32" */
const char *gs_reduction_name(gs_reduction); /* "sum" */

/* to[i] = a[i] combined with b[i], i < count. `to` may be a or b. */
typedef void (*gs_combine)(void *to, const void *a, const void *b, size_t count);
gs_combine gs_combine_of(gs_type, gs_reduction);
