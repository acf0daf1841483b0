/* The log of Oclgrind, in which a lab's kernels run a second time. */
#include <signal.h>
#include "tasks.c"
#include "fuzz.h"

const lab_task lab_tasks[] = {{0}};

FUZZ(in) {
    char text[600] = "";
    bool found = read_finding(fuzz_file(in->data, in->size), text, sizeof text);
    if (found != (*text != '\0')) fuzz_wrong("a finding without a text, or a text without a finding");
}
