/* What OpenCL says of its platforms and devices; for open.c. */
#pragma once

#include <sched.h>

#include "cl/cl.h"

/* Are `mine` all of a machine's cores, 0 .. online - 1? */
bool gs_cl_has_all_cores(const cpu_set_t *mine, long online);

enum { GS_CL_MOST = 64 /* platforms, and devices of one, that are looked at */ };

/* The ids of all platforms; *count may be 0: no OpenCL is no failure. */
gs_status gs_cl_platforms(cl_platform_id out[GS_CL_MOST], cl_uint *count);

/* The same for the devices of one platform; its number is for messages. */
gs_status gs_cl_devices_of(cl_platform_id, int number, cl_device_id out[GS_CL_MOST], cl_uint *count);

/* GS_E_FILE: the platform is PoCL, and has no place for its compiled kernels (gs_cl_choose_cache). */
gs_status gs_cl_check_cache(cl_platform_id);

/* The smallest number, from 0, that no open device has; the last of them is all further devices' together. Between
 * gs_cl_lock and gs_cl_unlock. Why devices have numbers: pocl.c. */
enum { GS_CL_NUMBERS = 64 };
int gs_cl_take_number(void);
void gs_cl_give_number_back(int);

/* The compiler's option by which the device of that number gets kernels of its own; "" where it needs none. */
void gs_cl_copy_option(const char *identity, int number, char *option, size_t size);

/* A text that OpenCL knows, cut to `size` bytes; "" if it does not say. */
void gs_cl_device_text(cl_device_id, cl_device_info what, char *text, size_t size);
void gs_cl_platform_text(cl_platform_id, cl_platform_info what, char *text, size_t size);

/* A number that OpenCL knows, of whatever type; 0 if it does not say. */
cl_ulong gs_cl_device_number(cl_device_id, cl_device_info what);

/* Into how many parts of equal size a device can be split: one for each unit, or 0. */
int gs_cl_most_parts(cl_device_id);
