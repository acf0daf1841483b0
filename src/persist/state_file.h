/* Stores a run's state (train/state.h) in the file with its weights (model/safetensors.h): as text in the metadata, and
 * as tensors such as "optimizer.velocity.3.weight". Programs that read only weights ignore the state. Also checks
 * whether a file matches the run that resumes from it. */
#pragma once

#include "model/safetensors.h"
#include "train/state.h"

struct gs_run_option;

/* ---- writing ---- */

/* The state without its vectors; free it with cJSON_Delete. */
struct cJSON *gs_state_json(const gs_state *);

/* Write weights (model->saved floats) and state to one file, whole or not at all. written: the file's size and SHA-256;
 * may be NULL. GS_E_FILE, GS_E_MEMORY. */
gs_status gs_state_save(const char *path, const gs_model *, const gs_optimizer_ops *, const float *weights,
                        const gs_state *, gs_written *written);

/* ---- reading ---- */

/* Read the state without its vectors. GS_E_FILE; GS_E_FORMAT: the file is damaged, or holds only weights. */
gs_status gs_state_read(const char *path, gs_state **out);

/* The value of one of the run's options, as text; NULL: the default. */
const char *gs_state_option(const gs_state *, const char *name);

/* ---- comparison with settings->resume ---- */

/* GS_E_USAGE: this option must agree with the run (gs_resume in options/options.h), but differs. The message names the
 * option and both values. */
gs_status gs_state_check_option(const char *path, const gs_state *, const struct gs_run_option *,
                                const gs_settings *);

/* GS_E_USAGE: settings->model differs from the file's. Call this before reading the weights, which would not fit. */
gs_status gs_state_check_model(const gs_settings *, const gs_weights_info *, gs_shape in);

/* Check everything else, and read the vectors. GS_E_USAGE, GS_E_SHAPE, GS_E_FORMAT, GS_E_MEMORY. */
gs_status gs_state_check_run(const gs_settings *, const gs_weights_info *, const gs_dataset *train_set,
                             gs_state *);
