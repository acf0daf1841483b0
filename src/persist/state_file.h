/* The state of a run (train/state.h) in the file of its weights (model/safetensors.h): as text in the metadata, and as
 * tensors "optimizer.velocity.3.weight". Readers of weights ignore it. And whether a file matches the run that resumes.
 */
#pragma once

#include "model/safetensors.h"
#include "train/state.h"

struct gs_run_option;

/* ---- written ---- */

/* The state without its vectors, to be freed with cJSON_Delete. */
struct cJSON *gs_state_json(const gs_state *);

/* Writes weights (model->saved floats) and state into one file, whole or not at all. written: the file's size and
 * SHA-256; may be NULL. GS_E_FILE, GS_E_MEMORY. */
gs_status gs_state_save(const char *path, const gs_model *, const gs_optimizer_ops *, const float *weights,
                        const gs_state *, gs_written *written);

/* ---- read ---- */

/* Reads the state without its vectors. GS_E_FILE; GS_E_FORMAT: the file is damaged, or holds only weights. */
gs_status gs_state_read(const char *path, gs_state **out);

/* The text of an option of the run; NULL: the default. */
const char *gs_state_option(const gs_state *, const char *name);

/* ---- does it match settings->resume? ---- */

/* GS_E_USAGE: this option must agree with the run (gs_resume in options/options.h), and differs. The message names the
 * option and both values. */
gs_status gs_state_check_option(const char *path, const gs_state *, const struct gs_run_option *,
                                const gs_settings *);

/* GS_E_USAGE: settings->model is not the file's model. Call it before the weights are read, which would not fit. */
gs_status gs_state_check_model(const gs_settings *, const gs_weights_info *, gs_shape in);

/* Checks everything else, and reads the vectors. GS_E_USAGE, GS_E_SHAPE, GS_E_FORMAT, GS_E_MEMORY. */
gs_status gs_state_check_run(const gs_settings *, const gs_weights_info *, const gs_dataset *train_set,
                             gs_state *);
