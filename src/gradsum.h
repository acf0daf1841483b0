/* gradsum: learn data-parallel training by running it.
 *
 * This header gathers the public headers; each is the manual of its part. In reading order:
 */
#pragma once

#ifdef __cplusplus
extern "C" {
#endif

#include "train/train.h"            /* training, step by step; begin here */
#include "persist/state_file.h"     /* to go on with a run */
#include "train/strategy.h"         /* ways to make a step; to write one */
#include "predict/profile.h"        /* where the time of training goes */
#include "predict/memory.h"         /* what memory a run will take */
#include "data/dataset.h"           /* load: images and labels */
#include "data/text_set.h"          /* text, as windows of tokens */
#include "data/vocabulary.h"        /* which token is which character */
#include "data/bpe.h"               /* tokens of several bytes, as GPT-2 has them */
#include "data/augment.h"           /* samples that are changed at random */
#include "data/order.h"             /* who sees which sample, when */
#include "model/model.h"            /* model: layers, flat parameters, flat gradients */
#include "model/model_text.h"       /* models as short texts */
#include "model/generate.h"         /* text, token by token */
#include "model/safetensors.h"      /* weights in a file */
#include "layer/layer.h"            /* layers: forward and backward */
#include "layer/make.h"             /* a layer of your own */
#include "layer/memory/recompute.h" /* activation checkpointing */
#include "device.h"                 /* devices by name */
#include "backend.h"                /* operators: one table of functions for each kind of device */
#include "sync/sync.h"              /* sum: the schemes */
#include "comm/comm.h"              /* messages between workers */
#include "comm/create.h"            /* comms; how processes find each other */
#include "comm/split.h"             /* comms of some of the ranks */
#include "comm/device.h"            /* the same, on device memory */
#include "optim/norm.h"             /* the norm of an array, exactly */
#include "optim/loss_scale.h"       /* for gradients in f16 */
#include "optim/optimizer.h"        /* update */
#include "optim/lr_rule.h"          /* learning rate by batch, warm-up */
#include "optim/lr_schedule.h"      /* and in the course of a run */
#include "log/log.h"                /* a record of a run */
#include "io/npy.h"                 /* arrays in a file */
#include "io/cache.h"               /* files worth keeping from run to run */
#include "io/file.h"                /* files written whole or not at all */
#include "core/shape.h"             /* a sample's shape */
#include "core/shard.h"             /* the parts of a range */
#include "core/philox.h"            /* random numbers */
#include "core/error.h"             /* errors */
#include "core/version.h"           /* GRADSUM_VERSION */

/* pipelines: who computes what when, and how long that takes */
#include "parallel/layout.h"
#include "parallel/schedule.h"
#include "parallel/virtual_time.h"

#ifdef __cplusplus
}
#endif
