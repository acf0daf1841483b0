#include "train/offload/offload.h"

#include <string.h>
#include "core/text.h"
#include "train/internal.h"

static const struct {
    const char *word;
    unsigned bit;
} words[] = {{"optimizer", GS_OFFLOAD_OPTIMIZER},
             {"optimiser", GS_OFFLOAD_OPTIMIZER},
             {"activations", GS_OFFLOAD_ACTIVATIONS},
             {"weights", GS_OFFLOAD_WEIGHTS}};
enum { WORDS = sizeof words / sizeof *words };

static bool read_one(const char **text, unsigned *out) {
    for (int i = 0; i < WORDS; i++) {
        const size_t length = strlen(words[i].word);
        if (strncmp(*text, words[i].word, length) != 0 || (*out & words[i].bit)) continue;
        *out |= words[i].bit;
        *text += length;
        return true;
    }
    return false;
}

bool gs_offload_read(const char *text, unsigned *out) {
    unsigned read = 0;
    const bool none = strcmp(text, "none") == 0;
    while (!none && read_one(&text, &read) && *text == ',') text++;
    if (!none && (*text || !read || text[-1] == ',')) return false; /* read: text has moved */
    *out = read;
    return true;
}

const char *gs_offload_text(unsigned offload, char *text, size_t size) {
    *text = '\0';
    for (int i = 0; i < WORDS; i++)
        if ((offload & words[i].bit) && words[i].word != words[1].word)
            gs_append(text, size, "%s%s", *text ? "," : "", words[i].word);
    if (!*text) gs_append(text, size, "none");
    return text;
}

/* ---- what it goes with ---- */

static bool is_on_cl(const gs_settings *s) {
    char name[48];
    for (int i = 0; i < gs_devices_count(s->devices); i++)
        if (gs_devices_name(s->devices, i, name) == GS_OK && strncmp(name, "cl", 2) == 0) return true;
    return false;
}

static gs_status check_optimizer(const gs_settings *s, bool cl) {
    char text[GS_OFFLOAD_TEXT];
    const unsigned blocks = s->offload & (GS_OFFLOAD_OPTIMIZER | GS_OFFLOAD_WEIGHTS);
    if (!blocks) return GS_OK;
    if (s->optimizer->whole)
        return gs_fail(GS_E_USAGE,
                       "--offload %s: an update goes block by block then, and --optimizer %s needs whole "
                       "tensors; wanted another optimiser, such as adam",
                       gs_offload_text(blocks, text, sizeof text), s->optimizer->name);
    if (cl && (s->offload & GS_OFFLOAD_OPTIMIZER) && (s->zero || s->pipeline > 1))
        return gs_fail(GS_E_USAGE,
                       "%s divides the optimiser's vectors among the workers: with an OpenCL device it does "
                       "not work with --offload optimizer",
                       s->pipeline > 1 ? "--pipeline" : "--zero");
    return GS_OK;
}

static gs_status check_layers(const gs_settings *s, bool cl) {
    char text[GS_OFFLOAD_TEXT];
    const unsigned layers = s->offload & (GS_OFFLOAD_ACTIVATIONS | GS_OFFLOAD_WEIGHTS);
    if (!layers) return GS_OK;
    gs_offload_text(layers, text, sizeof text);
    if (cl && (layers & GS_OFFLOAD_WEIGHTS) && s->tensor > 0)
        return gs_fail(GS_E_USAGE, "--tensor updates tensors one by one: with an OpenCL device, where "
                                   "weights come in windows, it does not work with --offload weights");
    if ((layers & GS_OFFLOAD_WEIGHTS) && (s->zero || s->pipeline > 1))
        return gs_fail(GS_E_USAGE,
                       "%s gathers all weights in each step: it does not work with --offload weights",
                       s->pipeline > 1 ? "--pipeline" : "--zero");
    if (s->zero > 1)
        return gs_fail(GS_E_USAGE,
                       "--zero %d brings gradients and weights layer by layer in windows of its own: it does "
                       "not work with --offload %s; wanted --zero 1%s",
                       s->zero, text, cl ? "" : ", or --offload optimizer");
    return GS_OK;
}

gs_status gs_check_offload(const gs_settings *s) {
    if (s->offload_dir && !s->offload)
        return gs_fail(GS_E_USAGE,
                       "--offload-dir %s says where --offload puts its files; wanted --offload too",
                       s->offload_dir);
    if (!s->offload) return GS_OK;
    if (s->offload & ~(unsigned)GS_OFFLOADS)
        return gs_fail(GS_E_USAGE, "offload is %u; wanted at most %d, a sum of gs_offload", s->offload,
                       GS_OFFLOADS);
    const bool cl = is_on_cl(s);
    GS_TRY(check_optimizer(s, cl));
    return check_layers(s, cl);
}

/* ---- afterwards ---- */

gs_status gs_report_offload(gs_worker *w, gs_offload_report *r) {
    gs_device *d = w->device;
    const double steps = w->step > w->begun_at ? (double)(w->step - w->begun_at) : 1;
    *r = (gs_offload_report){.on = d->offload != 0};
    if (!r->on) return GS_OK;
    GS_TRY(d->ops->settle(d));
    r->bytes = gs_memory_total(&d->memory.peak[GS_OFFLOADED]);
    const gs_away_times before = w->away_before;
    r->in_step =
        (gs_away_times){(d->away.busy - before.busy) / steps, (d->away.waited - before.waited) / steps,
                        (d->away.bytes - before.bytes) / steps};
    return GS_OK;
}
