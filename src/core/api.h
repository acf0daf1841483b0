/* GS_API marks each function and each table that a program may use: libgradsum.so exports only these. The other
 * declarations of a public header are internal. */
#pragma once

#ifdef __cplusplus
#define GS_API extern "C" __attribute__((visibility("default")))
#else
#define GS_API extern __attribute__((visibility("default")))
#endif
