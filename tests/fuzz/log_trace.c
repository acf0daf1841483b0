/* trace.json of a training log, in Chrome's trace format. The log also contains another file. */
#include "log.h"

FUZZ(in) {
    static const char run[] = "{\"format\":\"gradsum-run\",\"version\":1}";
    fuzz_folder("run.json", 1, run, sizeof run - 1);
    read_log(in, "trace.json");
}
