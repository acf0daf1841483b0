/* train --log: the numbers equal those that the run prints, and event files follow TensorBoard's format.
 * tests/system/interop.sh uses readers other than ours. */
#include "tests/support/logs.h"

#include <dirent.h>
#include <locale.h>
#include <math.h>
#include "core/text.h"
#include "io/json.h"
#include "log/internal.h"
#include "tests/support/training.h"

/* ---- the numbers ---- */

TEST(lines_are_what_train_prints) {
    static const char args[] = "train --model softmax --batch 333 --epochs 3 --devices cpu,cpu --json";
    const char *folder = gs_test_format("%s", gs_test_new_log());
    char *plain = gs_test_output(0, "%s", args);
    char *output = gs_test_output(0, "%s --log %s", args, folder);
    cJSON *lines = gs_test_metrics(folder), *run = gs_test_json(folder, "run.json");
    const cJSON *line;
    int step = 0, epoch = 0;
    double loss = 0, time = 0;
    char *at = output;
    cJSON_ArrayForEach(line, lines) {
        if (gs_test_is_kind(line, "step")) {
            assert_int_equal(gs_test_number(line, "step"), ++step);
            assert_int_equal(gs_test_number(line, "epoch"), epoch + 1);
            assert_true(gs_test_number(line, "time") > time);
            time = gs_test_number(line, "time");
            loss += gs_test_number(line, "loss") * (step % 19 == 0 ? 6000 - 18 * 333 : 333);
            assert_near(gs_test_number(line, "lr"), 0.05, 0, 0);
        }
        if (!gs_test_is_kind(line, "epoch")) continue;
        static const char *const same[] = {"epoch",     "train_loss",    "train_accuracy",
                                           "test_loss", "test_accuracy", "samples_per_s"};
        at = strstr(at, "{\"event\":\"epoch\"");
        assert_non_null(at);
        cJSON *printed = cJSON_ParseWithOpts(at++, NULL, 0);
        for (size_t i = 0; i < sizeof same / sizeof *same; i++)
            assert_near(gs_test_number(line, same[i]), gs_test_number(printed, same[i]), 0, 1e-8);
        assert_int_equal(gs_test_number(line, "step"), gs_test_number(printed, "steps"));
        assert_near(loss / 6000, gs_test_number(printed, "train_loss"), 0, 1e-6);
        loss = 0;
        epoch++;
        cJSON_Delete(printed);
    }
    assert_int_equal(step, 3 * 19);
    assert_int_equal(epoch, 3);
    assert_int_equal(gs_test_count_kind(lines, "worker"), 2 * 3);
    assert_string_equal(gs_test_text_of(gs_test_field(run, "ended"), "why"), "done");
    assert_int_equal(gs_test_number(gs_test_field(run, "ended"), "steps"), step);
    assert_int_equal(gs_test_number(run, "workers"), 2);
    assert_int_equal(gs_test_number(run, "host_cores"), gs_cpu_cores()); /* not those of a bound worker */
    assert_int_equal(cJSON_GetArraySize(gs_test_field(run, "devices")), 2);
    const int bytes = (4 * (7850 + 4) + 63) / 64 * 64; /* as allocated: whole cache lines */
    assert_int_equal(gs_test_number(gs_test_field(run, "memory"), "weights"), bytes);
    assert_int_equal(gs_test_number(gs_test_field(run, "memory"), "gradients"), bytes);
    /* the log does not change the run */
    const char *wanted = strstr(plain, "\"weights_sha256\""), *got = strstr(output, "\"weights_sha256\"");
    assert_memory_equal(got, wanted, strlen("\"weights_sha256\":\"\"") + 64);
    assert_has(got, gs_test_text_of(gs_test_field(run, "ended"), "weights_sha256"));
}

TEST(fewer_lines_hold_means) {
    const char *folder = gs_test_new_log();
    const char *one = gs_test_format("%s", folder);
    const char *ten = gs_test_format("%s-10", folder);
    assert_prints(0, "done", "train --model softmax --epochs 1 --exact --log %s", one);
    assert_prints(0, "done", "train --model softmax --epochs 1 --exact --log %s --log-every 10", ten);
    cJSON *all = gs_test_metrics(one), *few = gs_test_metrics(ten);
    assert_int_equal(gs_test_count_kind(all, "step"), 47);
    assert_int_equal(gs_test_count_kind(few, "step"), 5);
    double loss = 0;
    for (int i = 0; i < 10; i++) loss += gs_test_number(cJSON_GetArrayItem(all, i), "loss") / 10;
    assert_int_equal(gs_test_number(cJSON_GetArrayItem(few, 0), "step"), 10);
    assert_near(gs_test_number(cJSON_GetArrayItem(few, 0), "loss"), loss, 0, 1e-6);
    assert_int_equal(gs_test_number(cJSON_GetArrayItem(few, 4), "step"), 47);
}

/* ---- event files ---- */

/* A second implementation of CRC-32C, bit by bit. */
static uint32_t crc32c(const unsigned char *p, size_t n) {
    uint32_t crc = ~0u;
    for (size_t i = 0; i < 8 * n; i++) {
        uint32_t bit = (crc ^ (p[i / 8] >> (i % 8))) & 1;
        crc = (crc >> 1) ^ (bit ? 0x82f63b78 : 0);
    }
    return ~crc;
}

static uint32_t number_of(const unsigned char *p) {
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

/* With a parameter server, three of four workers send B bytes each and one sends 3 B. Only processes need Gloo. */
TEST(what_was_sent_and_over_what) {
    const char *folder = gs_test_new_log();
    const double B = 4 * (7850 + 4);
    const char *threads = gs_test_format("%s", folder);
    const char *processes = gs_test_format("%s-2", folder);
    assert_prints(0, "done", "train --model softmax --steps 3 --sync ps --devices cpu,cpu,cpu,cpu --log %s",
                  threads);
    assert_prints(0, "done", "launch -n 2 -- train --model softmax --steps 3 --log %s", processes);
    cJSON *four = gs_test_json(threads, "run.json"), *two = gs_test_json(processes, "run.json");
    const cJSON *ended = gs_test_field(four, "ended");
    assert_int_equal(gs_test_number(ended, "sent_bytes_a_step"), (3 + 1 + 1 + 1) * B / 4);
    assert_int_equal(gs_test_number(ended, "sent_bytes_a_step_most"), 3 * B);
    assert_null(cJSON_GetObjectItem(gs_test_field(four, "versions"), "gloo"));
    assert_null(cJSON_GetObjectItem(gs_test_field(two, "ended"),
                                    "sent_bytes_a_step")); /* unknown: the transport shm sums itself */
    int part[3], end = 0;
    const char *gloo = gs_test_text_of(gs_test_field(two, "versions"), "gloo");
    assert_int_equal(sscanf(gloo, "%d.%d.%d%n", &part[0], &part[1], &part[2], &end), 3);
    assert_int_equal(gloo[end], 0);
}

static bool crc_fits(const unsigned char *p, size_t n) {
    uint32_t crc = crc32c(p, n);
    return number_of(p + n) == ((crc >> 15 | crc << 17) + 0xa282ead8);
}

TEST(crc_is_castagnolis) {
    unsigned char bytes[32] = {0};
    assert_int_equal(gs_crc32c("123456789", 9), 0xe3069283); /* the check value of CRC-32C */
    assert_int_equal(gs_crc32c(bytes, 32), 0x8a9136aa);      /* RFC 3720, B.4 */
    memset(bytes, 0xff, 32);
    assert_int_equal(gs_crc32c(bytes, 32), 0x62a8ab43);
    assert_int_equal(gs_crc32c(bytes, 0), 0);
    assert_int_equal(crc32c((const unsigned char *)"123456789", 9), 0xe3069283);
}

TEST(event_files_are_records) {
    const char *folder = gs_test_new_log();
    char at[600], name[300] = "";
    size_t length;
    snprintf(at, sizeof at, "%s", folder);
    assert_prints(0, "done", "train --model softmax --epochs 2 --log %s", at);
    DIR *d = opendir(at);
    for (const struct dirent *e; (e = readdir(d));)
        if (strncmp(e->d_name, "events.out.tfevents.", 20) == 0) snprintf(name, sizeof name, "%s", e->d_name);
    closedir(d);
    char *text = gs_test_text(in_folder(at, name), &length);
    const unsigned char *p = (const unsigned char *)text, *end = p + length;
    int records = 0;
    while (p < end) {
        assert_true(end - p >= 16 && crc_fits(p, 8));
        size_t n = number_of(p);
        assert_true((size_t)(end - p) >= n + 16 && crc_fits(p + 12, n));
        if (records == 0) assert_non_null(memmem(p + 12, n, "brain.Event:2", 13));
        p += n + 16;
        records++;
    }
    assert_int_equal(records, 1 + 94 + 2 * (1 + 4)); /* version; steps; epochs, each with four histograms */
}

TEST(histograms_hold_all_numbers) {
    static gs_histogram h;
    static float x[3000];
    static const float special[] = {0.0f,  -0.0f,  1e-45f, -1e-45f,  1.0f,      -1.0f, 2.0f,
                                    3e38f, -3e38f, 0.125f, INFINITY, -INFINITY, NAN,   1.17549435e-38f};
    enum { SPECIAL = sizeof special / sizeof *special, OTHERS = 3 };
    for (int with = 0; with < 2; with++)
        for (size_t n = 0; n <= 3000; n += n < 20 ? 1 : 993) {
            double low = INFINITY, high = -INFINITY, sum = 0, squares = 0, all = 0;
            for (size_t i = 0; i < n; i++) x[i] = ldexpf((float)sin((double)i), (int)(i % 40) - 30);
            for (size_t i = 0; with && i < SPECIAL && i < n; i++) x[i] = special[i];
            const float scale = 0.5f;
            gs_histogram_of(&h, x, n, scale);
            for (size_t i = 0; i < n; i++) {
                double v = (double)(x[i] * scale);
                if (!isfinite(v)) continue;
                low = v < low ? v : low;
                high = v > high ? v : high;
                sum += v, squares += v * v, all++;
            }
            assert_true(h.num == all);
            if (all > 0) assert_true(h.min == low && h.max == high);
            assert_near(h.sum, sum, 1e-12, 1e-12);
            assert_near(h.sum_squares, squares, 1e-12, 1e-12);
            /* Buckets up to a limit hold all values below it. Rounding may move a value at the limit by one bucket. */
            assert_true(h.buckets <= GS_BUCKETS && (h.buckets > 0) == (all > 0));
            double total = 0;
            for (size_t b = 0; b < h.buckets; b++) {
                const double near = 1e-12 * (high - low), from = b > 0 ? h.limit[b - 1] : low - 1;
                double below = 0, at = 0;
                assert_true(h.limit[b] > from);
                for (size_t i = 0; i < n; i++) {
                    double v = (double)(x[i] * scale);
                    below += isfinite(v) && v < h.limit[b] - near;
                    at += isfinite(v) && fabs(v - h.limit[b]) <= near;
                }
                total += h.bucket[b];
                assert_true(total >= below && total <= below + at);
            }
            assert_true(total == all);
        }
}

/* ---- in another locale ---- */

/* A program may have set a locale with a decimal comma: files are still written and read as in the C locale. */
TEST(a_comma_of_the_locale_changes_no_file) {
    char command[1600], folder[600], *saved[2], *args[] = {"train"};
    size_t bytes[2];
    gs_result result[2];
    snprintf(folder, sizeof folder, "%s", gs_test_folder());
    snprintf(command, sizeof command,
             "cd %s && printf 'LC_NUMERIC\ndecimal_point \",\"\nthousands_sep \".\"\ngrouping 3\nEND "
             "LC_NUMERIC\n' >comma && localedef -c --no-archive -i ./comma ./comma_DE >localedef.log 2>&1; "
             "test -e comma_DE/LC_NUMERIC",
             folder);
    if (system(command) != 0)
        skip_because("localedef and its charmaps (Debian: locales), for a locale with a comma");
    for (int k = 0; k < 2; k++) {
        if (k == 1) setenv("LOCPATH", folder, 1);
        if (k == 1) assert_non_null(setlocale(LC_ALL, "comma_DE"));
        if (k == 1) assert_string_equal(localeconv()->decimal_point, ",");
        gs_settings s = gs_test_settings("cpu --save-state --log");
        s.save = in_folder(folder, k ? "b.safetensors" : "a.safetensors");
        gs_log_options o = {.folder = in_folder(folder, k ? "b" : "a"), .argc = 1, .argv = args};
        gs_log *log;
        assert_ok(gs_log_open(&o, &log));
        gs_observer observer = gs_log_observer(log);
        assert_ok(gs_train(&s, &observer, &result[k]));
        gs_log_end(log, GS_OK, &result[k]);
        gs_log_free(log);
        saved[k] = gs_test_text(s.save, &bytes[k]);
    }
    gs_settings s = gs_test_settings("cpu");
    s.load = in_folder(folder, "a.safetensors");
    s.model = NULL;
    gs_test_train(&s);
    setlocale(LC_ALL, "C");
    unsetenv("LOCPATH");
    assert_int_equal(bytes[0], bytes[1]);
    assert_memory_equal(saved[0], saved[1], bytes[0]);
    cJSON *lines[2] = {gs_test_metrics(in_folder(folder, "a")), gs_test_metrics(in_folder(folder, "b"))};
    assert_int_equal(cJSON_GetArraySize(lines[0]), cJSON_GetArraySize(lines[1]));
    gs_test_json(in_folder(folder, "b"), "run.json");
    for (int k = 0; k < 2; k++) gs_result_free(&result[k]);
}

/* Functions that depend on the locale are called only through their wrappers. */
TEST(nothing_else_asks_the_locale) {
    char line[300] = "";
    FILE *nm =
        popen("nm -A '" GS_BUILD_DIR "/libgradsum.a' 2>/dev/null | grep -E ' U (v?(s|sn|f|as|d)?printf|"
              "(__isoc[0-9]*_)?v?sscanf|(__isoc[0-9]*_)?strto(d|f|ld)|atof|localeconv|"
              "cJSON_(Parse|Print).*)$' | grep -Ev ':(c_locale|json)[.]o:'",
              "r");
    assert_non_null(nm);
    const bool found = fgets(line, sizeof line, nm) != NULL;
    pclose(nm);
    if (found) fail_msg("wanted a call through core/c_locale.h or io/json.h: %s", line);
}

/* A byte in a path that is not valid UTF-8 becomes \\xNN, as in messages. */
TEST(json_is_always_utf8) {
    cJSON *o = cJSON_CreateString("a\xff/\xc3\xa9\xc3");
    char *text = gs_test_keep(gs_json_to_text(o, false));
    assert_string_equal(text, "\"a\\\\xff/\xc3\xa9\\\\xc3\"");
    cJSON_Delete(o);
    const char *folder = gs_test_format("%s/x\xff", gs_test_folder());
    char *output = gs_test_output(
        0, "train --model softmax --steps 1 --json --save '%s.safetensors' --log '%s'", folder, folder);
    uint32_t code;
    int length;
    for (const char *at = output; *at; at += length) assert_true((length = gs_utf8_read(at, &code)) > 0);
    size_t bytes;
    static const char *const files[] = {"metrics.jsonl", "trace.json", "run.json"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char *all = gs_test_text(in_folder(folder, files[i]), &bytes);
        for (const char *at = all; *at; at += length) assert_true((length = gs_utf8_read(at, &code)) > 0);
        if (i == 2) assert_has(all, "x\\\\xff");
    }
}
