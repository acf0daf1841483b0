/* JSON output, the activity line, and the handling of signals and of a closed output. */
#include "cli/cli.h"
#include "core/clock.h"
#include "io/json.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

void gs_json_print(cJSON *o) {
    char *text = gs_json_to_text(o, false);
    if (text) printf("%s\n", text);
    gs_flush_output();
    cJSON_free(text);
    cJSON_Delete(o);
}

void gs_json_failed(gs_status status, const gs_result *r) {
    bool interrupted = status == GS_E_INTERRUPTED || gs_stop_requested;
    const char *how = status == GS_E_DIVERGED ? "diverged" : interrupted ? "interrupted" : "failed";
    cJSON *o = GS_JSON_OBJECT(GS_FIELD("event", "end"), GS_FIELD("status", how));
    if (r) GS_JSON_ADD(o, GS_FIELD("steps", r->steps));
    gs_json_print(GS_JSON_ADD(o, GS_FIELD("message", gs_message())));
}

/* "3 s", "12 min", "1.5 h" */
static const char *time_text(double seconds, char text[24]) {
    if (seconds < 100)
        snprintf(text, 24, "%.0f s", seconds);
    else if (seconds < 6000)
        snprintf(text, 24, "%.0f min", seconds / 60);
    else
        snprintf(text, 24, "%.1f h", seconds / 3600);
    return text;
}

/* Estimates the remaining seconds; NAN in the first half second, while they are unknown. */
static double work_left(gs_activity *w, double share) {
    const double now = gs_seconds();
    if (!(w->since > 0) || share < w->from)
        *w = (gs_activity){.since = now, .from = share, .tells = w->tells};
    if (now - w->since < 0.5 || !(share > w->from)) return NAN;
    return (now - w->since) * (1 - share) / (share - w->from);
}

void gs_show_activity(gs_activity *w, double share, const char *format, ...) {
    enum { WIDTH = 10 };
    static bool shown;
    char line[200] = "", time[24];
    const double left = w ? work_left(w, share) : NAN, now = gs_seconds();
    const bool bar = isatty(STDERR_FILENO);
    if (bar ? (w ? now - w->shown < 0.1 : !format && !shown) : !w || !w->tells || !(left > 2)) return;
    const int filled = share < 1 ? (int)(share * WIDTH) : WIDTH;
    if (w && bar) gs_append(line, sizeof line, "[%.*s>%*s] ", filled, "==========", WIDTH - filled, "");
    if (w) w->shown = now;
    if (!bar) w->tells = false;
    shown = format != NULL;
    if (format) {
        va_list args;
        const size_t length = strlen(line);
        va_start(args, format);
        vsnprintf(line + length, sizeof line - length, format, args);
        va_end(args);
    }
    if (!isnan(left)) gs_append(line, sizeof line, ", %s%s left", bar ? "" : "about ", time_text(left, time));
    if (bar)
        fprintf(stderr, "\r%.*s\033[K", gs_screen_width(stderr) - 1, line);
    else
        fprintf(stderr, "gradsum: %s\n", line);
    fflush(stderr);
}

void gs_show_testing(void *work, size_t done, size_t of) {
    gs_show_activity(work, (double)done / (double)of, "computing with the test set");
}

gs_status gs_temporary_folder(const char *name, char *folder, size_t size) {
    const char *set = getenv("TMPDIR"), *above = set && *set ? set : "/tmp";
    const bool fits = snprintf(folder, size, "%s/%s", above, name) < (int)size;
    if (fits && mkdtemp(folder)) return GS_OK;
    *folder = 0;
    return gs_fail(GS_E_FILE, "cannot make a folder in %.200s (TMPDIR says where): %s", above,
                   strerror(fits ? errno : ENAMETOOLONG));
}

double gs_share_of_run(const gs_settings *s, int epoch, uint64_t done, uint64_t of) {
    const double whole = (double)of * s->epochs, all = s->steps ? fmin((double)s->steps, whole) : whole;
    return ((epoch - 1) * (double)of + (double)done) / all;
}

void gs_show_run(void *shown, int epoch, uint64_t done, uint64_t of, const gs_score *score) {
    gs_shown_run *x = shown;
    char which[60] = "";
    (void)score;
    if (x->runs > 1) gs_append(which, sizeof which, " (%d of %d)", x->run + 1, x->runs);
    if (x->settings->epochs > 1) gs_append(which, sizeof which, ", epoch %d", epoch);
    gs_show_activity(&x->work, (x->run + gs_share_of_run(x->settings, epoch, done, of)) / x->runs, "%s%s",
                     x->what, which);
}

/* ---- signals request a stop or a checkpoint; a closed output requests a stop ---- */

/* Signals within this many seconds count as one: `timeout` signals its process and then the process group. */
static const double AGAIN = 1;

static void stop(int signal_number) {
    static const char note[] = "\ngradsum: stopping after the test; once more, a second later, ends it now\n";
    static double first;
    const double now = gs_seconds();
    if (first > 0 && now - first > AGAIN) {
        signal(signal_number, SIG_DFL);
        raise(signal_number); /* the program ends when this handler returns */
    } else if (!(first > 0)) {
        first = now;
        gs_stop_requested = signal_number;
        if (gs_test_has_no_stop) (void)!write(STDERR_FILENO, note, sizeof note - 1);
    }
}

void gs_stop_on_signals(void) {
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        struct sigaction now;
        if (sigaction(numbers[i], NULL, &now) == 0 && now.sa_handler != SIG_IGN) /* ignored under nohup */
            signal(numbers[i], stop);
    }
    signal(SIGPIPE, SIG_IGN); /* gs_flush_output notices the closed pipe, and the weights are still saved */
}

static void ask(int signal_number) {
    (void)signal_number;
    gs_checkpoint_requested = (gs_checkpoint_requested + 1) & 0xffff;
}

void gs_checkpoint_on_signal(void) {
    signal(SIGUSR1, ask);
}

void gs_flush_output(void) {
    if (fflush(stdout) != 0 && errno == EPIPE && !gs_stop_requested) gs_stop_requested = SIGPIPE;
}
