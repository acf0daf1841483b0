/* The museum: ten trainings, each with one planted mistake, by number and without its name.
 *
 *     museum                      list the exhibits, and how each is trained
 *     museum N FOLDER             train exhibit N with and without its mistake; gradsum explain compares the records
 *                                 FOLDER/exhibit and FOLDER/right. 0: the exhibit at the entrance, in the README
 *     museum --losses             train all of them for longer, and compare the losses
 *     museum ... --even           batches of 63 samples of a set of 126, instead of 64 of 133
 *     museum ... --draw SEED      another order of the exhibits
 *
 * The mistakes are those of tests/faults, which the linker wraps around the library's functions, only in this program
 * (lab.mk). The settings do not show a mistake: both records of an exhibit name the same training. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/philox.h"
#include "explain/explain.h"
#include "io/file.h"
#include "tests/faults/faults.h"
#include "tests/faults/settings.h"

enum { EXHIBITS = 10, SEEDS = 5, LONGER = 120 };

/* clang-format off */
static const struct {
    fault fault;
    const fault_run *settings;
} exhibits[EXHIBITS + 1] = {
    {BUCKET_MISSED, &settings_three},
    {RANK_MISSING, &settings_three}, {NORM_BY_RANK, &settings_clip_zero}, {SAME_PART, &settings_two},
    {STALE_WEIGHT, &settings_two}, {MEAN_OF_MEANS, &settings_three}, {SUMMED_TWICE, &settings_three},
    {DROPOUT_RANKS, &settings_two_dropout}, {RAGGED, &settings_two}, {DECAY_BY_RANK, &settings_decay_three},
    {LOSS_BY_WORKERS, &settings_three}};
/* clang-format on */

/* A Fisher-Yates shuffle; without --draw the order above. */
static void hang(uint64_t seed, int *place) {
    for (int i = 0; i <= EXHIBITS; i++) place[i] = i;
    for (int i = EXHIBITS; i > 1 && seed > 0; i--) {
        uint32_t word[4];
        gs_philox(seed, 22, (uint64_t)i, word);
        const int other = 1 + (int)((uint64_t)word[0] * (uint64_t)i >> 32), kept = place[i];
        place[i] = place[other];
        place[other] = kept;
    }
}

static bool even; /* --even */

static gs_settings settings_of(int exhibit) {
    gs_settings s = fault_settings();
    fault_apply(exhibits[exhibit].settings, &s);
    if (even) fault_make_even(&s);
    return s;
}

static int workers_of(const gs_settings *s) {
    int count = 1;
    for (const char *c = s->devices; *c; c++) count += *c == ',';
    return count;
}

static void print_card(int number, int exhibit) {
    const gs_settings s = settings_of(exhibit);
    const int workers = workers_of(&s);
    printf("%3d   %d workers, %llu steps of %zu samples, sgd", number, workers, (unsigned long long)s.steps,
           s.batch);
    if (s.weight_decay > 0) printf(", decay %g", (double)s.weight_decay);
    if (s.clip > 0) printf(", clip %g", (double)s.clip);
    if (s.zero > 0) printf(", --zero %d", s.zero);
    printf("\n      %s\n", s.model);
}

static gs_status train(gs_settings *s, fault f, gs_result *r) {
    fault_on = f;
    gs_status status = gs_train(s, NULL, r);
    fault_on = NO_FAULT;
    return status;
}

/* ---- one exhibit ---- */

static double loss_of(const gs_digests *d, uint64_t step) {
    const gs_digest_score *s = gs_digests_score(d, 0, step);
    return s->loss / s->samples;
}

static void print_losses(const gs_digests *a, const gs_digests *b) {
    printf("step   loss of the exhibit   of the right run\n");
    for (uint64_t step = a->first; step < a->first + a->steps; step++)
        printf("%4llu %21.4f %18.4f\n", (unsigned long long)step, loss_of(a, step), loss_of(b, step));
}

/* Prints what `gradsum explain` says, except the cause. */
static void print_difference(const gs_digests *a, const gs_digests *b) {
    gs_difference d;
    gs_explain(a, b, &d);
    if (!d.found) {
        printf("no difference\n");
        return;
    }
    printf("step %llu: the first difference is in: %s%s%s\n  by     %.3g of what it should be\n  ranks ",
           (unsigned long long)d.step, d.quantity, *d.where ? " of " : "", d.where, d.relative);
    int seen = 0;
    for (int r = 0; r < a->workers; r++)
        if (d.rank[r] && ++seen) printf(" %d", r);
    printf("%s\n", seen ? "" : " in their sum");
}

static gs_status print_evidence(const char *of_a, const char *of_b) {
    gs_digests a, b;
    GS_TRY(gs_digests_read(of_a, &a));
    gs_status status = gs_digests_read(of_b, &b);
    if (status == GS_OK) {
        print_losses(&a, &b);
        print_difference(&a, &b);
        gs_digests_free(&b);
    }
    gs_digests_free(&a);
    return status;
}

/* Removes an older record. */
static gs_status make_folder(const char *path, int workers) {
    char file[440];
    for (int r = 0; r < workers; r++) {
        snprintf(file, sizeof file, "%s/rank-%d.digest", path, r);
        if (unlink(file) != 0 && errno != ENOENT && errno != ENOTDIR)
            return gs_fail(GS_E_FILE, "cannot remove %s: %s", file, strerror(errno));
    }
    return gs_file_make_folders(path)
               ? GS_OK
               : gs_fail(GS_E_FILE, "cannot make the folder %s: %s", path, strerror(errno));
}

static gs_status show(int number, int exhibit, const char *folder) {
    char of_a[400], of_b[400];
    gs_settings s = settings_of(exhibit);
    gs_result r = {0};
    if (snprintf(of_a, sizeof of_a, "%s/exhibit", folder) >= (int)sizeof of_a)
        return gs_fail(GS_E_USAGE, "the folder's name is too long; wanted at most 390 letters");
    snprintf(of_b, sizeof of_b, "%s/right", folder);
    GS_TRY(make_folder(of_a, workers_of(&s)));
    GS_TRY(make_folder(of_b, workers_of(&s)));
    s.digest = of_a;
    GS_TRY(train(&s, exhibits[exhibit].fault, &r));
    gs_result_free(&r);
    s.digest = of_b;
    GS_TRY(train(&s, NO_FAULT, &r));
    gs_result_free(&r);
    print_card(number, exhibit);
    GS_TRY(print_evidence(of_a, of_b));
    printf("its records: %s and %s\n", of_a, of_b);
    return GS_OK;
}

/* ---- all of them, for longer ---- */

static gs_status end_of(int exhibit, fault f, uint64_t seed, double *loss, bool *stopped) {
    gs_settings s = settings_of(exhibit);
    gs_result r = {0};
    s.steps = LONGER;
    s.epochs = LONGER;
    s.seed = seed;
    const gs_status status = train(&s, f, &r);
    *loss = r.train_loss;
    *stopped = status == GS_E_DIVERGED;
    gs_result_free(&r);
    return *stopped ? GS_OK : status;
}

static gs_status print_all_losses(const int *place) {
    printf("# training loss of the last epoch, after %d steps: exhibit / right run, seeds 1 to %d\n"
           "# exhibit   ratio of each seed                       higher in\n",
           LONGER, SEEDS);
    int all_higher = 0, all_lower = 0;
    for (int n = 1; n <= EXHIBITS; n++) {
        int higher = 0, tenth_higher = 0;
        printf("%9d  ", n);
        for (uint64_t seed = 1; seed <= SEEDS; seed++) {
            double a, b;
            bool stopped, right_stopped;
            GS_TRY(end_of(place[n], exhibits[place[n]].fault, seed, &a, &stopped));
            GS_TRY(end_of(place[n], NO_FAULT, seed, &b, &right_stopped));
            const bool is_higher = stopped || !(a <= b);
            higher += is_higher;
            tenth_higher += stopped || !(a <= 1.1 * b);
            if (stopped)
                printf("   stopped");
            else
                printf(" %7.3f", a / b);
        }
        printf("      %d of %d\n", higher, SEEDS);
        all_higher += tenth_higher == SEEDS;
        all_lower += higher == 0;
    }
    printf("# higher by 10 %% or more with each seed: %d exhibits; lower with each seed: %d\n", all_higher,
           all_lower);
    return GS_OK;
}

static int usage(void) {
    fprintf(stderr,
            "museum: wanted no argument, 'N FOLDER' with an exhibit of 0 to %d, or --losses; then --even for "
            "batches "
            "that divide, and --draw SEED for another order, with a SEED above 0\n",
            EXHIBITS);
    return 2;
}

int main(int argc, char **argv) {
    int place[EXHIBITS + 1], words = argc;
    uint64_t draw = 0;
    if (words >= 3 && strcmp(argv[words - 2], "--draw") == 0) {
        char *end;
        draw = strtoull(argv[words - 1], &end, 10);
        if (*end || draw == 0) return usage();
        words -= 2;
    }
    if (words >= 2 && strcmp(argv[words - 1], "--even") == 0) {
        even = true;
        words--;
    }
    hang(draw, place);
    gs_status status = GS_OK;
    gs_cl_choose_settings(true);
    if (words == 1) {
        for (int n = 0; n <= EXHIBITS; n++) print_card(n, place[n]);
    } else if (words == 2 && strcmp(argv[1], "--losses") == 0) {
        status = print_all_losses(place);
    } else {
        char *end = argv[1];
        const long n = words == 3 ? strtol(argv[1], &end, 10) : -1;
        if (*end || n < 0 || n > EXHIBITS) return usage();
        status = show((int)n, place[n], argv[2]);
    }
    fault_sets_free();
    if (status != GS_OK) fprintf(stderr, "museum: %s\n", gs_message());
    return status != GS_OK;
}
