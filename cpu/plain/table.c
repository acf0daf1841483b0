#include "cpu/plain/plain.h"

#define PUT(name) ops->name = gs_plain_##name;

void gs_cpu_plain(gs_backend *ops) {
    GS_PLAIN_OPERATORS(PUT)
}
