/* Kernels of its own for each device of PoCL 5 that is open at the same time.
 *
 * PoCL 5.0 looks a loaded kernel up by its hash, its local size and how wide the global size may be, and counts who
 * uses it; but when a command has ended it looks the kernel up by hash and local size alone. Two devices that run one
 * kernel at once, over global sizes that differ, so count down one entry twice, and PoCL ends the process: "Assertion
 * 'found->ref_count > 0' failed" in pocl_release_dlhandle_cache. The hash is also that of the compiler's options. So
 * each open device has a number, which is one of its options. What that costs is one more compilation for each further
 * device, the first time.
 */
#include "cl/platforms.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

static uint64_t numbers; /* bit n is set: an open device has number n; under gs_cl_lock */

int gs_cl_take_number(void) {
    for (int n = 0; n < GS_CL_NUMBERS - 1; n++)
        if (!(numbers >> n & 1)) {
            numbers |= (uint64_t)1 << n;
            return n;
        }
    return GS_CL_NUMBERS - 1; /* of all further devices together */
}

void gs_cl_give_number_back(int n) {
    numbers &= ~((uint64_t)1 << n);
}

void gs_cl_copy_option(const char *identity, int number, char *option, size_t size) {
    option[0] = '\0';
    if (number > 0 && strstr(identity, "PoCL 5.")) snprintf(option, size, " -D GS_COPY=%d", number);
}
