/* metrics.jsonl of a training log. */
#include "log.h"

FUZZ(in) {
    read_log(in, "metrics.jsonl");
}
