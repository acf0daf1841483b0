/* GS_API marks each function and table that programs may use: libgradsum.so exports only these. The other declarations
 * in a public header are internal. */
#pragma once

#ifdef __cplusplus
#define GS_API extern "C" __attribute__((visibility("default")))
#else
#define GS_API extern __attribute__((visibility("default")))
#endif
