/* The value of GRADSUM_FAULT: "KIND:rank=R,operation=K[,generation=G][,seconds=S]", several with a ';' between them. */
#include "comm/inject/inject.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "core/text.h"

enum { FAULT = 120 /* bytes of the longest that makes sense, with its 0 */ };

static const char *const names[GS_FAULT_KINDS] = {
    [GS_FAULT_KILL] = "kill",   [GS_FAULT_USAGE] = "usage", [GS_FAULT_STOP] = "stop",
    [GS_FAULT_DELAY] = "delay", [GS_FAULT_DROP] = "drop",   [GS_FAULT_CORRUPT] = "corrupt",
};

const char *gs_fault_name(gs_fault_kind kind) {
    return names[kind];
}

static gs_status wrong(const char *fault, const char *why) {
    return gs_fail(GS_E_USAGE,
                   "GRADSUM_FAULT has '%s', %s; wanted kill, usage, stop, delay, drop or corrupt, as in "
                   "kill:rank=1,operation=57 or delay:rank=0,operation=3,seconds=0.5, with a ';' between two",
                   gs_printable(fault), why);
}

static bool read_whole(const char *text, uint64_t most, uint64_t *value) {
    char *end;
    if (*text < '0' || *text > '9') return false;
    errno = 0;
    *value = strtoull(text, &end, 10);
    return !*end && errno == 0 && *value <= most;
}

static bool read_seconds(const char *text, double *value) {
    char *end;
    if ((*text < '0' || *text > '9') && *text != '.') return false;
    *value = strtod(text, &end);
    return !*end && *value > 0 && *value <= 1000;
}

/* Which members a fault has. */
typedef struct given {
    bool rank, operation;
} given;

/* What "rank=1" says; NULL, or why it makes no sense. */
static const char *read_member(char *member, gs_fault *f, given *has) {
    uint64_t rank;
    char *value = strchr(member, '=');
    if (!value) return "where a name has no value";
    *value++ = '\0';
    if (strcmp(member, "rank") == 0) {
        if (!read_whole(value, INT_MAX, &rank)) return "whose rank is no number";
        f->rank = (int)rank;
        has->rank = true;
    } else if (strcmp(member, "operation") == 0) {
        if (!read_whole(value, UINT64_MAX / 2, &f->operation))
            return "whose operation is no number from 0 on";
        if (f->operation == 0 && (f->kind == GS_FAULT_DROP || f->kind == GS_FAULT_CORRUPT))
            return "whose operation is 0, when nothing is sent yet";
        has->operation = true;
    } else if (strcmp(member, "generation") == 0) {
        uint64_t generation = 0;
        if (strcmp(value, "all") != 0 && (!read_whole(value, 1000, &generation) || generation == 0))
            return "whose generation is no number from 1 to 1000, and not all";
        f->generation = (int)generation;
    } else if (strcmp(member, "seconds") == 0 && f->kind == GS_FAULT_DELAY) {
        if (!read_seconds(value, &f->seconds)) return "whose seconds are not above 0, 1000 at most";
    } else {
        return "which has a name that it does not take";
    }
    return NULL;
}

/* One fault, of which the text is used up; `whole` is for the message. */
static gs_status read_fault(char *text, const char *whole, gs_fault *f) {
    given has = {false, false};
    char *member = strchr(text, ':'), *rest = NULL;
    if (!member) return wrong(whole, "which has no ':'");
    *member++ = '\0';
    int kind = 0;
    while (kind < GS_FAULT_KINDS && strcmp(names[kind], text) != 0) kind++;
    if (kind == GS_FAULT_KINDS) return wrong(whole, "which is none of its kinds");
    *f = (gs_fault){.kind = (gs_fault_kind)kind, .generation = 1};
    for (char *one = strtok_r(member, ",", &rest); one; one = strtok_r(NULL, ",", &rest)) {
        const char *why = read_member(one, f, &has);
        if (why) return wrong(whole, why);
    }
    if (!has.rank) return wrong(whole, "which has no rank");
    if (!has.operation) return wrong(whole, "which has no operation");
    if (f->kind == GS_FAULT_DELAY && !(f->seconds > 0)) return wrong(whole, "which has no seconds");
    return GS_OK;
}

gs_status gs_faults_read(const char *text, gs_faults *faults) {
    *faults = (gs_faults){0};
    for (size_t length; *text; text += length + (text[length] == ';')) {
        char whole[FAULT], words[FAULT];
        length = strcspn(text, ";");
        const size_t kept = length < FAULT ? length : FAULT - 1;
        memcpy(whole, text, kept);
        whole[kept] = '\0';
        memcpy(words, whole, kept + 1);
        if (length >= FAULT) return wrong(whole, "which is too long");
        if (faults->count == GS_FAULTS)
            return wrong(whole, "which is one more than the 16 that there may be");
        GS_TRY(read_fault(words, whole, &faults->fault[faults->count]));
        faults->count++;
    }
    return GS_OK;
}
