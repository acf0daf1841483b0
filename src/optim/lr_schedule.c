#include "optim/lr_schedule.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "core/units.h"
#include "core/text.h"

enum { EPOCHS_MOST = 1000000 };

static const char *const names[] = {"constant", "step", "linear", "cosine"};
enum { KINDS = sizeof names / sizeof *names };

static bool is_valid(const gs_lr_schedule *s) {
    if (s->kind != GS_SCHEDULE_STEP) return true;
    bool valid = s->factor > 0 && s->factor <= 1 && s->drops >= 1 && s->drops <= GS_LR_DROPS;
    for (int i = 0; valid && i < s->drops; i++)
        valid = s->drop[i] > (i > 0 ? s->drop[i - 1] : 0) && s->drop[i] <= EPOCHS_MOST;
    return valid;
}

/* Read an unsigned number, and advance *text past it. */
static bool read_number(const char **text, double *x) {
    char *end;
    if (**text < '0' || **text > '9' || strspn(*text, "0123456789.eE-+") < strcspn(*text, ",@")) return false;
    *x = strtod(*text, &end);
    *text = end;
    return true;
}

/* Read a text such as "30,60@0.1". */
static bool read_drops(const char *text, gs_lr_schedule *s) {
    for (;; text++) {
        if (s->drops == GS_LR_DROPS || !read_number(&text, &s->drop[s->drops])) return false;
        s->drops++;
        if (*text != ',') break;
    }
    return *text++ == '@' && read_number(&text, &s->factor) && !*text;
}

bool gs_lr_schedule_read(const char *text, gs_lr_schedule *out) {
    gs_lr_schedule s = {0};
    size_t length = strcspn(text, ":");
    int kind = 0;
    while (kind < KINDS && (strlen(names[kind]) != length || strncmp(text, names[kind], length) != 0)) kind++;
    if (kind == KINDS) return false;
    s.kind = (gs_lr_schedule_kind)kind;
    bool step = s.kind == GS_SCHEDULE_STEP;
    if ((text[length] == ':') != step || (step && !read_drops(text + length + 1, &s))) return false;
    if (!is_valid(&s)) return false;
    *out = s;
    return true;
}

const char *gs_lr_schedule_text(const gs_lr_schedule *s, char *text, size_t size) {
    if ((unsigned)s->kind >= KINDS) return "an unknown schedule";
    const bool step = s->kind == GS_SCHEDULE_STEP;
    char number[32];
    if (!step && s->drops == 0) return names[s->kind];
    if (!step || s->drops < 1 || s->drops > GS_LR_DROPS) {
        snprintf(text, size, "%s of %d drops", names[s->kind], s->drops);
        return text;
    }
    snprintf(text, size, "step");
    for (int i = 0; i < s->drops; i++) {
        gs_decimal_print(s->drop[i], number, sizeof number);
        gs_append(text, size, "%c%s", i > 0 ? ',' : ':', number);
    }
    gs_decimal_print(s->factor, number, sizeof number);
    gs_append(text, size, "@%s", number);
    return text;
}

/* sin(x)^2, |x| <= pi / 4: the series up to x^15, whose error is below 1e-16 there. */
static double sine_squared(double x) {
    const double square = x * x;
    double term = x, sine = x;
    for (int n = 3; n <= 15; n += 2) {
        term *= -square / (double)(n * (n - 1));
        sine += term;
    }
    return sine * sine;
}

/* (1 + cos(pi p)) / 2 = cos(pi p / 2)^2, 0 <= p <= 1; its second half mirrors the first */
static double half_cosine(double p) {
    const double quarter = 0.78539816339744830962;
    return p <= 0.5 ? 1 - sine_squared(2 * quarter * p) : sine_squared(2 * quarter * (1 - p));
}

static double after_warm_up(const gs_lr_rates *c, double base, double t) {
    const gs_lr_schedule *s = &c->schedule;
    double left = c->steps - c->warmup, p = left > 0 && t < c->steps ? (t - c->warmup) / left : 1;
    if (s->kind == GS_SCHEDULE_LINEAR) return base + (c->final_lr - base) * p;
    if (s->kind == GS_SCHEDULE_COSINE) return c->final_lr + (base - c->final_lr) * half_cosine(p);
    for (int i = 0; i < s->drops && t >= s->drop[i] * c->epoch; i++) base *= s->factor;
    return base;
}

float gs_lr_of_step(const gs_lr_rates *c, uint64_t step) {
    const float base = gs_lr_at(&c->plan, step);
    const double t = (double)step;
    if (t < c->plan.warmup) return base;
    if (t < c->warmup) return (float)((double)base * ((t + 1) / (c->warmup + 1)));
    if (c->schedule.kind == GS_SCHEDULE_CONSTANT) return base;
    return (float)after_warm_up(c, (double)base, t);
}
