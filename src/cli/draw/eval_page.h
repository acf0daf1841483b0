/* The page of `eval --report`: accuracy, the confusion matrix, and the samples that the model gets most wrong.
 *
 * What the page's script (src/page/eval.js) reads:
 *
 *     version, command, load, data, workers; samples, classes, accuracy, top5 (or null), loss
 *     names      of the classes; [] where they have only numbers
 *     confusion  [[label, taken, samples]]   where there are some
 *     worst      [{sample, label, taken, loss (null: infinite), sure,
 *                  picture: {h, w, c: 1 or 3, bytes: base64 of (c, h, w)}, or null}]
 */
#pragma once

#include "train/train.h"

/* settings, result: of gs_eval with settings->confusion. argv: the command. GS_E_FILE: it cannot be written; else what
 * loading the test set gives. */
gs_status gs_eval_page(const gs_settings *, const gs_result *, const char *path, int argc, char *const *argv);
