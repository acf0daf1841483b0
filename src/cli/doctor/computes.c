/* This machine: what it computes with, and on what. */
#include "cli/doctor/doctor.h"
#include "core/nettle.h"
#include "data/dataset.h"
#include "data/source.h"
#include "device.h"
#include "io/file.h"

#include <cblas.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATH = 4096, HASH = 12 /* digits that are shown */, ROUND = 256, SOME = 64 };

/* ---- devices and libraries ---- */

static void open_device(gs_doctor *d, const gs_device_info *i) {
    gs_device *device = NULL;
    if (gs_device_open(i->name, 0, &device) == GS_OK)
        gs_doctor_say(d, GS_WELL, i->name, NULL, "%s%s%s", i->description, *i->note ? "; " : "", i->note);
    else
        gs_doctor_say(d, GS_WRONG, i->name, "gradsum devices", "%s cannot be opened: %s", i->description,
                      gs_message());
    gs_device_close(device);
}

static void look_at_devices(gs_doctor *d) {
    gs_device_info *all = NULL;
    const char *problem = NULL;
    int count = 0;
    if (gs_device_list(&all, &count, &problem) != GS_OK) {
        gs_doctor_say(d, GS_WRONG, "devices", NULL, "%s", gs_message());
        return;
    }
    for (int i = 0; i < count; i++) open_device(d, &all[i]);
    if (count > 0) gs_doctor_fact(d, "processor", "%s; %s", all[0].description, all[0].note);
    if (count == 1)
        gs_doctor_say(d, GS_NOTE, "OpenCL", "Debian: apt-get install pocl-opencl-icd; cpu works without it",
                      "there is no OpenCL device");
    if (problem && *problem) gs_doctor_say(d, GS_NOTE, "OpenCL", NULL, "%s", problem);
    free(all);
}

static void look_at_libraries(gs_doctor *d) {
    const gs_process_transport *mpi;
    const bool has_mpi = gs_process_transport_find("mpi", false, &mpi) == GS_OK;
    char blas[32];
    snprintf(blas, sizeof blas, "%.31s", openblas_get_config());
    blas[strcspn(blas + strcspn(blas, " ") + 1, " ") + strcspn(blas, " ") + 1] = '\0';
    gs_doctor_say(d, GS_WELL, "libraries", NULL, "%s, Gloo %s%s", blas, gs_comm_gloo_version(),
                  has_mpi ? "" : ", no MPI");
}

/* ---- kernels ---- */

static int is_kernel(const struct dirent *e) {
    const char *end = strrchr(e->d_name, '.');
    return end && (strcmp(end, ".cl") == 0 || strcmp(end, ".clh") == 0);
}

/* SHA-256 of the names and contents of all files in their order. */
static gs_status hash_kernels(const char *folder, int *count, char hex[65]) {
    struct dirent **file = NULL;
    struct sha256_ctx sum;
    char path[PATH + 256], one[65];
    uint64_t bytes;
    gs_status status = GS_OK;
    sha256_init(&sum);
    *count = scandir(folder, &file, is_kernel, alphasort);
    for (int i = 0; i < *count; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, file[i]->d_name);
        if (status == GS_OK) status = gs_sha256_file(path, one, &bytes);
        sha256_update(&sum, strlen(file[i]->d_name), (const uint8_t *)file[i]->d_name);
        sha256_update(&sum, 64, (const uint8_t *)one);
        free(file[i]);
    }
    free(file);
    gs_sha256_end(&sum, hex);
    return status;
}

static void look_at_kernels(gs_doctor *d) {
    char folder[PATH], hex[65];
    int count = 0;
    gs_status status = gs_file_of_gradsum("cl", folder, sizeof folder);
    if (status == GS_OK) status = hash_kernels(folder, &count, hex);
    if (status == GS_OK && count > 0) {
        gs_doctor_fact(d, "kernels", "%.*s", HASH, hex);
        gs_doctor_say(d, GS_WELL, "kernels", NULL, "%d files in %s, SHA-256 %.*s", count, folder, HASH, hex);
    } else {
        gs_doctor_say(d, GS_WRONG, "kernels", "make install, or run the program in its build folder",
                      "OpenCL's are not there: %s", status == GS_OK ? folder : gs_message());
    }
}

/* ---- data ---- */

/* Over samples and answers as a model gets them; of a source, which reads them from files, over some of them. */
static gs_status hash_set(const gs_dataset *set, char hex[65]) {
    const size_t in = gs_dataset_input_bytes(set), out = gs_dataset_answer_bytes(set);
    const size_t at_once = set->source ? 1 : ROUND;
    const size_t step = set->source && set->count > SOME ? set->count / SOME : at_once;
    unsigned char *inputs = malloc(at_once * in), *answers = malloc(at_once * out);
    gs_status status = inputs && answers ? GS_OK : gs_fail(GS_E_MEMORY, "no memory to read the data");
    struct sha256_ctx sum;
    sha256_init(&sum);
    sha256_update(&sum, sizeof set->count, (const uint8_t *)&set->count);
    for (size_t at = 0; status == GS_OK && at < set->count; at += step) {
        const size_t n = set->count - at < at_once ? set->count - at : at_once;
        status = gs_dataset_gather(set, NULL, at, n, inputs, answers);
        if (status != GS_OK) break;
        sha256_update(&sum, n * in, inputs);
        sha256_update(&sum, n * out, answers);
    }
    gs_sha256_end(&sum, hex);
    free(inputs);
    free(answers);
    return status;
}

static void look_at_data(gs_doctor *d) {
    gs_dataset *set = NULL;
    char hex[65];
    gs_status status = gs_dataset_load(d->data, GS_TRAIN, &set);
    if (status == GS_OK) status = hash_set(set, hex);
    if (status == GS_OK) {
        gs_doctor_fact(d, "data", "%.80s, %zu samples, SHA-256 %.*s", d->data, set->count, HASH, hex);
        gs_doctor_say(d, GS_WELL, "data", NULL, "%s: %zu samples of %s, SHA-256 %.*s", d->data, set->count,
                      gs_shape_product(set->shape).text, HASH, hex);
    } else {
        gs_doctor_fact(d, "data", "none");
        gs_doctor_say(d, GS_WRONG, "data", "--data names what the run will take", "%s", gs_message());
    }
    gs_dataset_free(set);
}

/* What has a name, and may be installed or not. */
static void look_for_more_data(gs_doctor *d) {
    static const char *const path[] = {"/usr/share/datasets/fashion-mnist", "/usr/share/doc/jargon-text"};
    static const char *const package[] = {"dataset-fashion-mnist", "jargon-text"};
    char missing[100] = "";
    for (int i = 0; i < 2; i++) {
        DIR *folder = opendir(path[i]);
        if (folder)
            closedir(folder);
        else
            snprintf(missing + strlen(missing), sizeof missing - strlen(missing), " %s", package[i]);
    }
    if (!*missing) {
        gs_doctor_say(d, GS_WELL, "more data", NULL, "fashion-mnist and jargon are installed");
        return;
    }
    char advice[160];
    snprintf(advice, sizeof advice, "Debian: apt-get install%s", missing);
    gs_doctor_say(d, GS_NOTE, "more data", advice, "not installed:%s", missing);
}

void gs_doctor_computes(gs_doctor *d) {
    look_at_libraries(d);
    look_at_devices(d);
    look_at_kernels(d);
    look_at_data(d);
    look_for_more_data(d);
}
