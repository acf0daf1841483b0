/* gradsum: learn data-parallel training by running it.
 *
 * This header gathers the public headers; each is the manual of its part. In reading order:
 */
#ifndef GRADSUM_H
#define GRADSUM_H

#ifndef GRADSUM_VERSION
#define GRADSUM_VERSION "0.1.0"
#endif

#ifdef __cplusplus
extern "C" {
#endif

#include "train/train.h"      /* training, step by step; begin here */
#include "train/profile.h"    /* where the time of training goes */
#include "data/dataset.h"     /* load: images and labels */
#include "data/shard.h"       /* shard: who sees which sample, when */
#include "model/model.h"      /* model: layers, flat parameters, flat gradients */
#include "model/model_text.h" /* models as short texts */
#include "layer/layer.h"      /* layers: forward and backward */
#include "tune.h"             /* the fastest tiles for an OpenCL device */
#include "backend.h"          /* operators: one table of functions for each kind of device */
#include "sync/sync.h"        /* sum: the schemes */
#include "sync/comm.h"        /* messages between workers */
#include "sync/comm_device.h" /* the same on the memory of devices */
#include "optim/sgd.h"        /* update */
#include "optim/lr_rule.h"    /* learning rate by batch, warm-up */
#include "log/log.h"          /* a record of a run */
#include "io/safetensors.h"   /* weights in a file */
#include "io/npy.h"           /* arrays in a file */
#include "io/cache.h"         /* files worth keeping from run to run */
#include "io/file.h"          /* files written whole or not at all */
#include "core/philox.h"      /* random numbers */
#include "core/error.h"       /* errors */

#ifdef __cplusplus
}
#endif

#endif
