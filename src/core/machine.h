/* Which machine this is. */
#pragma once

/* A whole number that stays the same while a machine runs, and differs from another machine's: processes with the same
 * number share a clock (clock.h). */
double gs_boot_id(void);
