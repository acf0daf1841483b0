/* GS_API marks each function and each table that a program may use: libgradsum.so exports only these. The other
 * declarations of a public header are internal. */
#pragma once

#if defined(__GNUC__)
#define GS_VISIBLE __attribute__((visibility("default")))
#else
#define GS_VISIBLE
#endif

#ifdef __cplusplus
#define GS_API extern "C" GS_VISIBLE
#else
#define GS_API extern GS_VISIBLE
#endif
