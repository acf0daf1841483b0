#include "tests/support/made_log.h"

const char gs_made_run[] = "{\"format\":\"gradsum-run\",\"version\":1,\"workers\":2,\"global_batch\":8,"
                           "\"model\":\"mlp\",\"ended\":{\"why\":\"done\",\"steps\":3}}";
const char gs_made_metrics[] =
    "{\"kind\":\"step\",\"step\":1,\"time\":0.5,\"loss\":2.5,\"accuracy\":0.25,\"samples_per_s\":100}\n"
    "{\"kind\":\"step\",\"step\":2,\"time\":0.75,\"loss\":null,\"samples_per_s\":300,\"share\":{\"sync\":0."
    "25,\"forward\":0.75}}\n"
    "{\"kind\":\"worker\",\"epoch\":1,\"worker\":1,\"samples_per_s\":50,\"share\":{\"sync\":1}}\n"
    "{\"kind\":\"epoch\",\"epoch\":1,\"step\":2,\"time\":0.8,\"train_loss\":2,\"test_loss\":1.5,\"test_"
    "accuracy\":0.5,\"samples_per_s\":200}\n"
    "{\"kind\":\"of another version\"}\n";
const char gs_made_trace[] =
    "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n"
    "{\"ph\":\"X\",\"pid\":1,\"tid\":0,\"cat\":\"forward\",\"name\":\"forward "
    "0.linear\",\"ts\":20,\"dur\":5,\"args\":{\"step\":4}},\n"
    "{\"ph\":\"X\",\"pid\":0,\"tid\":1,\"cat\":\"message\",\"name\":\"send 2 kB to "
    "1\",\"ts\":10,\"dur\":1,\"args\":{\"step\":4}},\n"
    "{\"ph\":\"X\",\"pid\":0,\"tid\":1,\"cat\":\"sync\",\"name\":\"sync\",\"ts\":10,\"dur\":9,\"args\":{"
    "\"step\":4}},\n"
    "{\"ph\":\"f\",\"id\":7,\"pid\":1,\"tid\":0,\"ts\":12},{\"ph\":\"s\",\"id\":7,\"pid\":0,\"tid\":1,\"ts\":"
    "11},\n"
    "{\"ph\":\"s\",\"id\":8,\"pid\":0,\"tid\":1,\"ts\":11},\n"
    "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":1,\"tid\":0,\"args\":{\"name\":\"worker 1 (cl)\"}}\n"
    "]}\n";

void gs_made_file(const char *folder, const char *name, const char *text, size_t length) {
    char path[600];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, length, f), length);
    fclose(f);
}

const char *gs_made_log(void) {
    static char folder[300];
    snprintf(folder, sizeof folder, "%s", gs_test_folder());
    GS_MADE_TEXT(folder, "run.json", gs_made_run);
    GS_MADE_TEXT(folder, "metrics.jsonl", gs_made_metrics);
    GS_MADE_TEXT(folder, "trace.json", gs_made_trace);
    return folder;
}
