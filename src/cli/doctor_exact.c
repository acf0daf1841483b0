/* `gradsum doctor --exact`: short runs whose weights have the same SHA-256 on every machine and device. */
#include "cli/cli.h"

#include <unistd.h>

/* Runs of 5 steps in tests/golden/bits.txt; bits.sh checks that they are there. */
static const struct {
    const char *name, *sha256, *options;
} runs[] = {
    {"a multi-layer perceptron", "1c02939f8e402191245ad53d702e033a6d9eda5b17da1b4408a1aebc4afa0d2f",
     "--model mlp --batch 64"},
    {"a residual network", "172f7da6e8082f420f64255171729e6d4d79d0d6c7137df9def368504062653f",
     "--model resnet20 --batch 16 --batch-norm ghost:2"},
    {"a transformer", "48c853f835015ac6e29f4b14075ec74ee4f83e8aa365b28fdd02c9ca83250c4d",
     "--model gpt --data text:numbers.txt --context 16 --batch 16"},
};

static gs_status write_numbers(const char *folder) {
    char path[4200];
    snprintf(path, sizeof path, "%s/numbers.txt", folder);
    FILE *f = fopen(path, "w");
    if (!f) return gs_fail(GS_E_FILE, "%s cannot be written", path);
    for (int i = 1; i <= 2000; i++) fprintf(f, "%d\n", i);
    return fclose(f) == 0 ? GS_OK : gs_fail(GS_E_FILE, "%s cannot be written", path);
}

/* A process of its own, so that the way into training is the usual one. */
static gs_status train(const char *folder, const char *device, const char *options, char sha256[65]) {
    char command[13000], path[4200], last[600] = "", line[600];
    const char *text = strstr(options, "numbers.txt");
    const int before = (int)(text ? (size_t)(text - options) : strlen(options));
    uint64_t bytes;
    snprintf(command, sizeof command,
             "'/proc/%d/exe' train --exact --tests 0 --steps 5 %.*s%s%s%s%s --devices '%s' --save "
             "'%s/weights' 2>&1",
             (int)getpid(), before, options, text ? "'" : "", text ? folder : "", text ? "'/" : "",
             text ? text : "", device, folder);
    fflush(NULL);
    FILE *output = popen(command, "r");
    if (!output) return gs_fail(GS_E_MEMORY, "no process could be started");
    while (fgets(line, sizeof line, output))
        snprintf(last, sizeof last, "%.*s", (int)strcspn(line, "\n"), line);
    if (pclose(output) != 0) return gs_fail(GS_E_DEVICE, "gradsum train %s fails: %s", options, last);
    snprintf(path, sizeof path, "%s/weights", folder);
    return gs_sha256_file(path, sha256, &bytes);
}

static gs_status check_runs(const char *folder, const char *device) {
    char sha256[65];
    GS_TRY(write_numbers(folder));
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        GS_TRY(train(folder, device, runs[i].options, sha256));
        if (strcmp(sha256, runs[i].sha256) != 0)
            return gs_fail(GS_E_DEVICE, "%s (%s --steps 5) has weights with SHA-256 %.8s, wanted %.8s",
                           runs[i].name, runs[i].options, sha256, runs[i].sha256);
    }
    return GS_OK;
}

gs_status gs_doctor_exact(const char *name) {
    char folder[4096] = "";
    gs_device *d;
    GS_TRY(gs_device_open(name, 0, &d));
    gs_status status = gs_device_set_exact(d);
    gs_device_close(d);
    if (status == GS_OK) status = gs_temporary_folder("gradsum-doctor-XXXXXX", folder, sizeof folder);
    if (status == GS_OK) status = check_runs(folder, name);
    if (*folder) gs_file_remove_folder(folder);
    return status;
}
