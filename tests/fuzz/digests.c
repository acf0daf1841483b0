/* Records of `train --digest`, compared as `gradsum explain` does. The other run's record follows the first form feed;
 * without one, the record is compared with itself. */
#include "fuzz.h"

#include <string.h>

#include "core/text.h"
#include "explain/explain.h"

/* A difference must be in a step that both records have, and its cause must be safe to print on a terminal. */
static void check(const gs_digests *a, const gs_difference *d) {
    char shown[4 * sizeof d->sentence];
    if (!d->found) return;
    if (d->step < a->first || d->step - a->first >= a->steps)
        fuzz_wrong("step %llu", (unsigned long long)d->step);
    if (!d->cause || !*d->cause || !*d->sentence)
        fuzz_wrong("a difference in %s without a cause", d->quantity);
    if (strcmp(gs_printable_into(shown, sizeof shown, d->sentence, ""), d->sentence) != 0)
        fuzz_wrong("cannot be printed: %s", shown);
}

FUZZ(in) {
    const uint8_t *feed = in->size ? memchr(in->data, '\f', in->size) : NULL;
    const size_t first = feed ? (size_t)(feed - in->data) : in->size;
    gs_digests a, b;
    gs_difference d;
    if (gs_digests_read(fuzz_folder("rank-0.digest", 0, in->data, first), &a) != GS_OK) return;
    const char *other = feed ? fuzz_folder("rank-0.digest", 1, feed + 1, in->size - first - 1) : a.folder;
    if (gs_digests_read(other, &b) == GS_OK) {
        if (gs_explain_check(&a, &b) == GS_OK) {
            gs_explain(&a, &b, &d);
            check(&a, &d);
        }
        gs_digests_free(&b);
    }
    gs_digests_free(&a);
}
