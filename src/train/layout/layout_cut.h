/* A worker's share of a model, as its layout cuts it, without a run. */
#pragma once

#include "train/train.h"

/* What worker `rank` of a tensor group has of the model `plan`; to be freed. GS_E_USAGE: it cannot be divided so;
 * GS_E_MEMORY. */
gs_status gs_layout_part(const gs_settings *, const gs_model *plan, int rank, gs_model **part);
