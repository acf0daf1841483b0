#include "train/jitter.h"
#include "core/philox.h"
#include "core/text.h"
#include "core/units.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

static bool is_named_before(const gs_jitter *j, int i) {
    for (int k = 0; k < i; k++)
        if (j->pause[k].rank == j->pause[i].rank) return true;
    return false;
}

static bool is_valid(const gs_jitter *j) {
    bool valid = true;
    for (int i = 0; valid && i < j->count; i++) {
        const gs_pause *p = &j->pause[i];
        valid = p->rank >= 0 && p->seconds > 0 && p->seconds <= 1000 && p->share > 0 && p->share <= 1 &&
                !is_named_before(j, i);
    }
    return valid;
}

static const gs_unit percent[] = {{"%", 1, 100}, {0}};

/* "3:20ms@5%"; *text is moved behind it. */
static bool read_pause(const char **text, gs_pause *p) {
    char *colon;
    if (**text < '0' || **text > '9') return false;
    unsigned long rank = strtoul(*text, &colon, 10);
    if (*colon != ':' || rank > INT_MAX) return false;
    p->rank = (int)rank;
    *text = colon + 1;
    if (!gs_unit_read(text, gs_units_time, &p->seconds) || *(*text)++ != '@') return false;
    return gs_unit_read(text, percent, &p->share);
}

bool gs_jitter_read(const char *text, gs_jitter *j) {
    gs_jitter read = {0};
    do {
        if (read.count == GS_PAUSES || !read_pause(&text, &read.pause[read.count])) return false;
        read.count++;
    } while (*text++ == ',');
    if (text[-1] || !is_valid(&read)) return false;
    *j = read;
    return true;
}

const char *gs_jitter_text(const gs_jitter *j, char *text, size_t size) {
    char seconds[40], share[40];
    const bool valid = j->count >= 0 && j->count <= GS_PAUSES;
    snprintf(text, size, "%s", j->count > 0 ? "" : "none");
    if (!valid) snprintf(text, size, "%d pauses", j->count);
    for (int i = 0; valid && i < j->count; i++) {
        const gs_pause *p = &j->pause[i];
        gs_unit_print(p->seconds, gs_units_time, seconds, sizeof seconds);
        gs_unit_print(p->share, percent, share, sizeof share);
        gs_append(text, size, "%s%d:%s@%s", i > 0 ? "," : "", p->rank, seconds, share);
    }
    return text;
}

double gs_jitter_seconds(const gs_jitter *j, uint64_t seed, int rank, uint64_t step) {
    for (int i = 0; i < j->count; i++) {
        const gs_pause *p = &j->pause[i];
        uint32_t word[4];
        if (p->rank != rank) continue;
        gs_philox(seed, gs_stream_hi(GS_STREAM_JITTER, (uint64_t)rank), step, word);
        return (double)gs_uniform(word[0]) < p->share ? p->seconds : 0;
    }
    return 0;
}
