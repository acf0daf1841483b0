/* A worker's share of a model, as its layout cuts it, without a run. */
#pragma once

#include "train/strategies/pipeline.h"

/* A worker as far as gs_holding_plan looks at it. */
typedef struct gs_layout_cut {
    gs_worker worker;
    gs_pipeline_worker cut;
} gs_layout_cut;

/* The stage of worker `rank`, with --pipeline. plan: the model, or with --tensor that worker's part of it. GS_E_USAGE:
 * it cannot be cut so; GS_E_MEMORY. */
gs_status gs_layout_cut_create(const gs_settings *, const gs_model *plan, int workers, int rank,
                               gs_layout_cut **);
void gs_layout_cut_free(gs_layout_cut *); /* NULL is allowed */

/* What worker `rank` of a tensor group has of the model `plan`; to be freed. GS_E_USAGE: it cannot be divided so;
 * GS_E_MEMORY. */
gs_status gs_layout_part(const gs_settings *, const gs_model *plan, int rank, gs_model **part);
