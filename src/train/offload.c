#include "train/offload.h"

#include "core/text.h"

static const struct {
    const char *word;
    unsigned bit;
} words[] = {{"optimizer", GS_OFFLOAD_OPTIMIZER},
             {"activations", GS_OFFLOAD_ACTIVATIONS},
             {"weights", GS_OFFLOAD_WEIGHTS}};
enum { WORDS = sizeof words / sizeof *words };

bool gs_offload_read(const char *text, unsigned *out) {
    unsigned read = 0;
    if (strcmp(text, "none") == 0) {
        *out = 0;
        return true;
    }
    for (const char *word = text;; word++) {
        const size_t length = strcspn(word, ",");
        int i = 0;
        while (i < WORDS && (strlen(words[i].word) != length || strncmp(word, words[i].word, length) != 0))
            i++;
        if (i == WORDS || (read & words[i].bit)) return false;
        read |= words[i].bit;
        word += length;
        if (!*word) {
            *out = read;
            return true;
        }
    }
}

const char *gs_offload_text(unsigned offload, char *text, size_t size) {
    *text = '\0';
    for (int i = 0; i < WORDS; i++)
        if (offload & words[i].bit) gs_append(text, size, "%s%s", *text ? "," : "", words[i].word);
    if (!*text) gs_append(text, size, "none");
    return text;
}

/* ---- after the run ---- */

gs_status gs_report_offload(gs_worker *w, gs_offload_report *r) {
    gs_device *d = w->device;
    const double steps = w->step > w->begun_at ? (double)(w->step - w->begun_at) : 1;
    *r = (gs_offload_report){.on = d->offload != 0};
    if (!r->on) return GS_OK;
    GS_TRY(d->ops->settle(d));
    r->bytes = gs_memory_total(&d->memory.peak[GS_OFFLOADED]);
    const gs_offload_times before = w->offload_before;
    r->in_step = (gs_offload_times){(d->offload_times.busy - before.busy) / steps,
                                    (d->offload_times.waited - before.waited) / steps,
                                    (d->offload_times.bytes - before.bytes) / steps};
    return GS_OK;
}
