#include "train/options/options.h"

#include "core/text.h"
#include "core/units.h"
#include "data/folder_set.h"
#include "data/text_set.h"
#include "layer/memory/recompute.h"
#include "model/safetensors.h"
#include "train/offload.h"

#include <cjson/cJSON.h>
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define AT(field) offsetof(gs_settings, field)
#define WORD(name) " " #name
#define GS_BETA_MOST 0.999999 /* a mean with beta 1 never changes */
#define GS_CLIP_LEAST 1e-6 /* clipping adds this to the norm, so a smaller limit would change the gradient */
#define GS_SMOOTHING_MOST 0.999999 /* a target with smoothing 1 ignores the label */
#define GS_EPSILON_LEAST 1e-30     /* 0 would divide by 0 while all gradients have been 0 */

/* In the order of --help. */
const gs_run_option gs_run_table[] = {
    /* ---- for all runs ---- */
    {"model", GS_OPTION_TEXT, AT(model), 0, 0, "NAME|TEXT",
     "a name such as mlp (gradsum model --help); or layers, in quotes: \"flatten, linear 10\" (default: the "
     "model of --load, else mlp)",
     .agreement = GS_MAY_DIFFER},
    {"data", GS_OPTION_TEXT, AT(data), 0, 0, "NAME|DIR",
     "fashion-mnist[-small], colour-fashion[-small]; FILE.csv; a folder with pictures (train/CLASS/*.jpg, "
     "val/CLASS/*.jpg)" GS_DATA_FILES " files; jargon or text:FILE, a text",
     .usual_text = "fashion-mnist-small", .json = {"data", "data"}, .agreement = GS_MAY_DIFFER,
     .resume = GS_RESUME_FILLED},
    {"labels", GS_OPTION_LABELS, AT(labels), 0, 0, "WHICH", "of CIFAR-100: fine (100 classes) or coarse (20)",
     .json = {"labels", "labels"}, .agreement = GS_MAY_DIFFER, .resume = GS_RESUME_AGREES},
    {"tokens", GS_OPTION_TOKENS, AT(tokens), 0, 0, "WHAT",
     "for a text: chars, bytes or bpe (default chars; with --load: the model's)", .usual = GS_TOKENS_UNSAID,
     .json = {"tokens", "tokens"}, .null = true, .agreement = GS_MAY_DIFFER, .log_with = "context",
     .resume = GS_RESUME_FILLED},
    {"tokenizer", GS_OPTION_TEXT, AT(tokenizer), 0, 0, "DIR",
     "for a text: byte pairs (--tokens bpe) from vocab.json and merges.txt in DIR (GPT-2)",
     .json = {"tokenizer", "tokenizer"}, .null = true, .agreement = GS_MAY_DIFFER, .log_with = "tokenizer"},
    {"context", GS_OPTION_INT, AT(context), 1, GS_CONTEXT_MOST, "N",
     "for a text: samples are windows of N tokens (default 64; with --load: the model's)",
     .json = {"context", "context"}, .null = true, .agreement = GS_MAY_DIFFER, .log_with = "context",
     .resume = GS_RESUME_FILLED},
    {"size", GS_OPTION_INT, AT(folder.size), 1, GS_FOLDER_MOST, "N",
     "for image folders: scale the short side to N x 256 / 224, crop the middle N x N (default 224; with "
     "--load: the model's)",
     .json = {NULL, "size"}, .log_with = "size", .resume = GS_RESUME_FILLED},
    {"loaders", GS_OPTION_INT, AT(folder.loaders), 1, 256, "N",
     "threads of this process that decode pictures", .usual = 1, .agreement = GS_MAY_DIFFER},
    {"skip-broken", GS_OPTION_FLAG, AT(folder.skip_broken), 0, 0, NULL,
     "replace a file that cannot be decoded by the next one", .json = {NULL, "skip_broken"},
     .log_with = "skip-broken", .resume = GS_RESUME_FILLED},
    {"device", GS_OPTION_TEXT, AT(devices), 0, 0, "NAME", "cpu, cl, cl:P.D, cl:P.D/KofN (gradsum devices)",
     .usual_text = "cpu", .agreement = GS_MAY_DIFFER},
    {"devices", GS_OPTION_TEXT, AT(devices), 0, 0, "LIST", "one worker on each: cpu,cpu", .usual_text = "cpu",
     .json = {"devices"}, .agreement = GS_MAY_DIFFER},
    {"threads", GS_OPTION_INT, AT(threads), 0, 1024, "T", "CPU threads per worker; 0: divide the cores",
     .agreement = GS_MAY_DIFFER},
    {"bind", GS_OPTION_BIND, AT(bind), 0, 0, "WHAT", "cores: bind each cpu worker to its own cores; or none",
     .usual = true, .agreement = GS_MAY_DIFFER},
    {"loss", GS_OPTION_LOSS, AT(loss), 0, 0, "NAME", "cross_entropy (softmax) or squared_error",
     .resume = GS_RESUME_AGREES},
    {"load", GS_OPTION_TEXT, AT(load), 0, 0, "FILE", "start from these weights (safetensors)",
     .agreement = GS_MAY_DIFFER},
    {"mean", GS_OPTION_CHANNELS, AT(mean), -GS_MEAN_MOST, GS_MEAN_MOST, "X",
     "images are scaled to (byte / 255 - mean) / std, for each channel: 0.5,0.4,0.4 (default: the data's; "
     "with --load: the file's, else 0)",
     .json = {"mean", "mean"}},
    {"std", GS_OPTION_CHANNELS, AT(std), GS_STD_LEAST, GS_STD_MOST, "X",
     "the std in that formula (default: the data's; with --load: the file's, else 1)",
     .json = {"std", "std"}},
    {"timeout", GS_OPTION_DOUBLE, AT(timeout), 0.1, 86400, "S", "seconds to wait for another worker",
     .usual = GS_TIMEOUT, .agreement = GS_MAY_DIFFER},

    /* ---- for training ---- */
    {"sync", GS_OPTION_TEXT, AT(sync), 0, 0, "NAME", "a scheme (step --help), local, async", GS_TRAINING,
     .usual_text = "allreduce", .json = {"sync", "sync"}, .resume = GS_RESUME_FILLED},
    {"wire", GS_OPTION_WIRE, AT(wire), 0, 0, "TYPE", "send gradients as f32, f16 or bf16; sums are f32",
     GS_TRAINING, .json = {"wire", "wire"}, .resume = GS_RESUME_FILLED},
    {"precision", GS_OPTION_PRODUCTS, AT(precision), 0, 0, "TYPE",
     "products of layers in f32, bf16 or f16; weights and sums are f32. f16 scales the loss", GS_TRAINING,
     .json = {"precision", "precision"}, .log_with = "precision", .resume = GS_RESUME_AGREES},
    {"recompute", GS_OPTION_SEGMENTS, AT(recompute), 0, 0, "WHICH",
     "keep less for backward and compute the rest again: all (inside each layer), blocks, or K: keep only "
     "the input of each K layers",
     GS_TRAINING, .off = "none", .json = {"recompute", "recompute"}, .null = true, .log_with = "recompute"},
    {"bucket", GS_OPTION_INT, AT(bucket), 0, 1e6, "KB",
     "during backward, sum whole layers, at least KB at a time", GS_TRAINING, .off = "none",
     .json = {"bucket_kb", "bucket_kb"}, .resume = GS_RESUME_FILLED},
    {"staleness", GS_OPTION_INT, AT(staleness), 0, 1000, "K",
     "async: how many steps a worker may run ahead of the slowest", GS_LEARNING | GS_BY_LAYOUT, .usual = -1,
     .off = "none", .json = {"staleness_bound"}, .null = true},
    {"every", GS_OPTION_INT, AT(every), 1, 1e9, "H", "local: average the weights every H steps",
     GS_LEARNING | GS_BY_LAYOUT, .off = "none", .json = {"every"}, .null = true, .resume = GS_RESUME_FILLED},
    {"batch", GS_OPTION_BATCH, AT(batch), 1, 1e15, "B", "the global batch; all: full gradient descent",
     GS_TRAINING, .usual = 128, .json = {"batch", "global_batch"}, .resume = GS_RESUME_AGREES},
    {"epochs", GS_OPTION_INT, AT(epochs), 1, 1e6, "E", "passes over the training set", GS_LEARNING,
     .usual = 5, .json = {"epochs", "epochs"}, .resume = GS_RESUME_FILLED},
    {"steps", GS_OPTION_COUNT, AT(steps), 1, 1e15, "N", "end after N steps", GS_LEARNING | GS_BY_SIMULATE,
     .off = "no limit", .json = {NULL, "steps"}, .resume = GS_RESUME_FILLED},
    {"optimizer", GS_OPTION_OPTIM, AT(optimizer), 0, 0, "NAME", "one of:" GS_OPTIMIZERS(WORD), GS_TRAINING,
     .json = {"optimizer", "optimizer.name"}, .resume = GS_RESUME_AGREES},
    {"lr", GS_OPTION_FLOAT, AT(lr), 0, 1e6, "X", "learning rate", GS_LEARNING, .usual = NAN,
     .json = {"lr", "optimizer.lr"}, .resume = GS_RESUME_FILLED},
    {"lr-rule", GS_OPTION_RULE, AT(lr_rule), 0, 0, "RULE",
     "none; linear: lr x batch / base batch; sqrt: lr x the root of that ratio", GS_LEARNING,
     .json = {"lr_rule", "optimizer.lr_rule"}, .resume = GS_RESUME_FILLED},
    {"base-batch", GS_OPTION_COUNT, AT(base_batch), 1, 1e15, "B",
     "with --lr-rule: the batch that --lr is meant for (default 128)", GS_LEARNING,
     .json = {"base_batch", "optimizer.base_batch"}, .log_with = "lr-rule", .resume = GS_RESUME_FILLED},
    {"warmup", GS_OPTION_DOUBLE, AT(warmup), 0, 1e6, "E",
     "rise to the rate in E epochs; with --lr-rule: from --lr to the new rate", GS_LEARNING,
     .json = {NULL, "optimizer.warmup"}, .log_with = "warmup", .resume = GS_RESUME_FILLED},
    {"warmup-steps", GS_OPTION_COUNT, AT(warmup_steps), 1, 1e15, "N", "or rise in N steps", GS_LEARNING,
     .off = "none", .json = {NULL, "optimizer.warmup_steps"}, .log_with = "warmup-steps",
     .resume = GS_RESUME_FILLED},
    {"schedule", GS_OPTION_SCHEDULE, AT(schedule), 0, 0, "NAME",
     "the rate after the warm-up: constant; linear, cosine: down to --final-lr; step:30,60@0.1: x 0.1 after "
     "30 epochs, and after 60",
     GS_LEARNING, .json = {"schedule", "optimizer.schedule"}, .log_with = "schedule",
     .resume = GS_RESUME_FILLED},
    {"final-lr", GS_OPTION_FLOAT, AT(final_lr), 0, 1e6, "X",
     "with --schedule linear or cosine: the rate at the end (default 0)", GS_LEARNING, .usual = NAN,
     .json = {"final_lr", "optimizer.final_lr"}, .log_with = "schedule", .resume = GS_RESUME_FILLED},
    {"momentum", GS_OPTION_FLOAT, AT(momentum), 0, GS_BETA_MOST, "X", "momentum; 0: none", GS_TRAINING,
     .usual = NAN, .json = {"momentum", "optimizer.momentum"}, .resume = GS_RESUME_AGREES},
    {"beta1", GS_OPTION_FLOAT, AT(beta1), 0, GS_BETA_MOST, "X", "decay of the mean of gradients", GS_LEARNING,
     .usual = NAN, .json = {"beta1", "optimizer.beta1"}, .resume = GS_RESUME_AGREES},
    {"beta2", GS_OPTION_FLOAT, AT(beta2), 0, GS_BETA_MOST, "X", "decay of the mean of their squares",
     GS_LEARNING, .usual = NAN, .json = {"beta2", "optimizer.beta2"}, .resume = GS_RESUME_AGREES},
    {"epsilon", GS_OPTION_FLOAT, AT(epsilon), GS_EPSILON_LEAST, 1e6, "X", "added to prevent a division by 0",
     GS_LEARNING, .usual = NAN, .json = {"epsilon", "optimizer.epsilon"}, .resume = GS_RESUME_AGREES},
    {"weight-decay", GS_OPTION_FLOAT, AT(weight_decay), 0, 1e6, "X",
     "weight decay; L2, but decoupled from the gradient with ", GS_LEARNING, .usual = NAN,
     .json = {"weight_decay", "optimizer.weight_decay"}, .resume = GS_RESUME_FILLED},
    {"clip", GS_OPTION_FLOAT, AT(clip), GS_CLIP_LEAST, 1e6, "X",
     "shorten each step's gradient to a norm of at most X, over all parameters", GS_LEARNING | GS_BY_LAYOUT,
     .off = "none", .json = {"clip", "clip"}, .null = true, .log_with = "clip", .resume = GS_RESUME_FILLED},
    {"label-smoothing", GS_OPTION_FLOAT, AT(label_smoothing), 0, GS_SMOOTHING_MOST, "E",
     "cross_entropy: train towards 1 - E at the label and E spread over all classes (default 0)", GS_LEARNING,
     .json = {"label_smoothing", "label_smoothing"}, .log_with = "label-smoothing",
     .resume = GS_RESUME_FILLED},
    {"seed", GS_OPTION_COUNT, AT(seed), 0, 1e18, "N",
     "seed of the initial weights, the sample order and dropout", GS_TRAINING, .usual = 1,
     .json = {"seed", "seed"}, .resume = GS_RESUME_AGREES},
    {"accumulate", GS_OPTION_INT, AT(accumulate), 1, 1e6, "K",
     "compute each worker's part in K passes, then sum once", GS_TRAINING, .json = {"accumulate"},
     .resume = GS_RESUME_FILLED},
    {"layout", GS_OPTION_TEXT, AT(layout), 0, 0, "LIST",
     "dpN,tpN,ppN,zeroN: N replicas, --tensor, --pipeline, --zero; for as many workers as dp x tp x pp",
     GS_BY_TRAIN | GS_BY_MEMORY | GS_BY_STEP | GS_BY_SIMULATE, .json = {"layout", "layout"}, .null = true,
     .agreement = GS_MAY_DIFFER, .log_with = "layout"},
    {"pipeline", GS_OPTION_INT, AT(pipeline), 2, 64, "P",
     "cut the model into P stages, one per worker; more workers form several pipelines",
     GS_BY_TRAIN | GS_BY_MEMORY | GS_BY_STEP, .off = "none", .json = {"pipeline", "pipeline"}, .null = true,
     .log_with = "pipeline", .resume = GS_RESUME_FILLED},
    {"pipeline-schedule", GS_OPTION_TEXT, AT(pipeline_schedule), 0, 0, "S",
     "gpipe, 1f1b, eager, interleaved[:V] with V runs of layers in each stage (default 1f1b; V 2)",
     GS_BY_TRAIN | GS_BY_MEMORY | GS_BY_LAYOUT | GS_BY_STEP | GS_BY_SIMULATE,
     .json = {NULL, "pipeline_schedule"}, .log_with = "pipeline-schedule", .resume = GS_RESUME_FILLED},
    {"pipeline-cut", GS_OPTION_TEXT, AT(pipeline_cut), 0, 0, "HOW",
     "where the stages begin: measured (by the layers' times), flops (by counting), or 3,6: at these layers",
     GS_BY_TRAIN | GS_BY_MEMORY | GS_BY_LAYOUT, .json = {"pipeline_cut", "pipeline_cut"}, .null = true,
     .log_with = "pipeline"},
    {"micro-batches", GS_OPTION_INT, AT(micro_batches), 1, 1e6, "M",
     "cut a pipeline's part of the batch into M (default 4 for each stage)",
     GS_BY_TRAIN | GS_BY_MEMORY | GS_BY_LAYOUT | GS_BY_SIMULATE, .off = "none",
     .json = {NULL, "micro_batches"}, .log_with = "micro-batches", .resume = GS_RESUME_FILLED},
    {"tensor", GS_OPTION_INT, AT(tensor), 2, GS_LAYOUT_PARTS, "T",
     "T workers share each pair of linear layers or of convolutions, and the words of a text's last layer; "
     "more workers form several groups",
     GS_BY_TRAIN | GS_BY_MEMORY | GS_BY_STEP, .off = "none", .json = {"tensor", "tensor"}, .null = true,
     .log_with = "tensor", .resume = GS_RESUME_FILLED},
    {"sequence", GS_OPTION_FLAG, AT(sequence), 0, 0, NULL,
     "for a text, with tensor groups: outside shared pairs each worker holds some tokens of each sequence",
     GS_BY_TRAIN | GS_BY_MEMORY | GS_BY_STEP | GS_BY_SIMULATE, .json = {"sequence", "sequence"},
     .log_with = "sequence", .resume = GS_RESUME_FILLED},
    {"micro-batch", GS_OPTION_COUNT, AT(micro_batch), 1, 1e15, "M",
     "a worker computes at most M samples at once, which saves memory (gradsum memory)", GS_TRAINING,
     .off = "256, or less", .json = {NULL, "micro_batch"}, .log_with = "micro-batch",
     .resume = GS_RESUME_FILLED},
    {"augment", GS_OPTION_AUGMENT, AT(augment), 0, 0, "LIST",
     "change training images at random in each epoch: resized_crop,crop:4,flip,cutout:8; or none",
     GS_LEARNING | GS_BY_LAYOUT, .json = {"augment", "augment"}, .null = true, .resume = GS_RESUME_FILLED},
    {"throttle", GS_OPTION_DOUBLE, AT(throttle), 0.001, 1e6, "MB/S",
     "limit each loader to this rate, to see the effect", GS_LEARNING | GS_BY_LAYOUT,
     .json = {"throttle_mb_per_s"}, .null = true, .agreement = GS_MAY_DIFFER},
    {"jitter", GS_OPTION_JITTER, AT(jitter), 0, 0, "LIST",
     "3:20ms makes worker 3 pause 20 ms in each step, 3:20ms@5% in 5 % of its steps; several with commas",
     GS_TRAINING, .json = {"jitter", "jitter"}, .null = true},
    {"link", GS_OPTION_LINK, AT(link), 0, 0, "LATENCY,BANDWIDTH",
     "a network between the workers: with 50us,125MB/s a message takes 50 us and 1 s per 125 MB", GS_TRAINING,
     .json = {"link", "link"}, .null = true},
    {"exact", GS_OPTION_FLAG, AT(exact), 0, 0, NULL, "same bits for 1, 2, 4 and 8 workers, on any device",
     GS_TRAINING, .json = {"exact", "exact"}, .resume = GS_RESUME_FILLED},
    {"zero", GS_OPTION_INT, AT(zero), 0, 3, "STAGE",
     "divide among the workers: 1 the optimiser's vectors; 2 gradients too; 3 weights too", GS_TRAINING,
     .off = "none", .json = {"zero", "zero"}, .null = true, .log_with = "zero", .resume = GS_RESUME_FILLED},
    {"batch-norm", GS_OPTION_NORM, AT(batch_norm), 0, 0, "OVER",
     "batch_norm's statistics: global: over the global batch; local: over what a worker computes at once; "
     "ghost:G: over each G samples",
     GS_TRAINING, .json = {"batch_norm", "batch_norm"}, .resume = GS_RESUME_FILLED},
    {"verify", GS_OPTION_COUNT, AT(verify), 1, 1e15, "N",
     "every N steps, stop if the workers' weights differ", GS_LEARNING, .off = "never", .json = {"verify"}},
    {"tests", GS_OPTION_INT, AT(tests), 0, 1e6, "N",
     "evaluate the test set N times per epoch, the last time at its end; 0: never", GS_LEARNING, .usual = 1,
     .json = {"tests"}},
    {"digest", GS_OPTION_TEXT, AT(digest), 0, 0, "DIR",
     "record what each step computes, as a few numbers, in this new folder (gradsum explain)", GS_BY_TRAIN,
     .agreement = GS_ALL_OR_NONE},
    {"save", GS_OPTION_TEXT, AT(save), 0, 0, "FILE", "write the weights (safetensors); on all ranks or none",
     GS_TRAINING, .agreement = GS_ALL_OR_NONE},
    {"names", GS_OPTION_NAMES, AT(names), 0, 0, "WHOSE",
     "how --save names the weights: own, torchvision (ResNet, VGG), huggingface (GPT-2); --load takes all",
     GS_LEARNING, .agreement = GS_MAY_DIFFER},

    /* ---- for commands that name them ---- */
    {"keep", GS_OPTION_KEEP, AT(keep), 1, 1000, "WHICH",
     "which weights to --save: last, or best (of the epoch with the highest test accuracy; for a text: the "
     "lowest test loss); a number: how many checkpoints stay (default last,3)",
     GS_BY_TRAIN, .agreement = GS_MUST_AGREE},
    {"save-state", GS_OPTION_FLAG, AT(save_state), 0, 0, NULL,
     "with --save: the state of the run too, for --resume", GS_BY_TRAIN | GS_BY_MEMORY,
     .agreement = GS_MUST_AGREE},
    {"resume", GS_OPTION_TEXT, AT(resume), 0, 0, "FILE|DIR|auto",
     "continue the run that --save-state left in FILE, or the newest whole checkpoint in DIR; auto: that of "
     "--checkpoint, if any, else begin a new run; --epochs and --steps are totals",
     GS_BY_TRAIN, .agreement = GS_ALL_OR_NONE},
    {"checkpoint", GS_OPTION_TEXT, AT(checkpoint), 0, 0, "DIR",
     "write checkpoints into this folder during training: at intervals, on SIGUSR1, SIGTERM and Ctrl-C, and "
     "at the end",
     GS_BY_TRAIN, .agreement = GS_ALL_OR_NONE},
    {"checkpoint-every", GS_OPTION_EVERY, AT(checkpoint_every), 0, 0, "N|TIME",
     "a checkpoint every N steps, or TIME, such as 500ms (default 60s)", GS_BY_TRAIN,
     .agreement = GS_MAY_DIFFER},
    {"log", GS_OPTION_FLAG, AT(record), 0, 0, NULL, NULL, GS_IF_NAMED, .agreement = GS_MUST_AGREE},
    {"trace-steps", GS_OPTION_RANGE, AT(trace), 0, 0, "A-B",
     "the steps in the log's timeline, or none (default 4-7)", GS_BY_TRAIN, .off = "none",
     .json = {NULL, "trace_steps"}},
    {"keep-going", GS_OPTION_FLAG, AT(keep_going), 0, 0, NULL, "keep training even if the loss is not finite",
     GS_BY_TRAIN, .agreement = GS_MUST_AGREE},
    {"offload", GS_OPTION_OFFLOAD, AT(offload), 0, 0, "LIST",
     "optimizer: keep its vectors in a file (cl: in host memory) and load them block by block; activations, "
     "weights: layer by layer. Same bits, less memory",
     GS_BY_TRAIN | GS_BY_MEMORY, .agreement = GS_MAY_DIFFER},
    {"offload-dir", GS_OPTION_TEXT, AT(offload_dir), 0, 0, "DIR",
     "folder of these files, which have no name, so that none is left (default: TMPDIR, else /var/tmp)",
     GS_BY_TRAIN | GS_BY_MEMORY, .agreement = GS_MAY_DIFFER},
    {"max-memory", GS_OPTION_INT, AT(max_memory), 1, 1e9, "MB",
     "refuse a run that takes more of a device's memory (gradsum memory)", GS_BY_TRAIN | GS_BY_MEMORY,
     .off = "no limit", .agreement = GS_MAY_DIFFER},
    {"fit", GS_OPTION_FLAG, AT(fit), 0, 0, NULL,
     "instead of refusing a run, make it fit --max-memory, or on cpu the memory of this process, with "
     "--micro-batch (--micro-batches), --zero, --offload and --recompute",
     GS_BY_TRAIN | GS_BY_MEMORY, .agreement = GS_MUST_AGREE},
    {"confusion", GS_OPTION_FLAG, AT(confusion), 0, 0, NULL,
     "also show which class is taken for which, and the accuracy of each", GS_IF_NAMED,
     .agreement = GS_MUST_AGREE},
    {0},
};

_Static_assert(sizeof gs_run_table / sizeof *gs_run_table <= GS_RUN_OPTIONS, "GS_RUN_OPTIONS is too small");

const gs_run_option *gs_run_option_named(const char *name) {
    const gs_run_option *o = gs_run_table;
    while (o->name && strcmp(o->name, name) != 0) o++;
    if (!o->name) gs_bug("unknown option --%s of a run", name);
    return o;
}

gs_option gs_run_option_of(const gs_run_option *o, gs_settings *s) {
    return (gs_option){o->name, o->kind, (char *)s + o->at, o->min, o->max, o->argument, o->help};
}

bool gs_run_option_is_default(const gs_run_option *o, const gs_settings *s) {
    const gs_settings usual = gs_settings_default();
    char text[GS_OPTION_TEXT_MOST], usual_text[GS_OPTION_TEXT_MOST];
    return strcmp(gs_run_option_text(o, s, text), gs_run_option_text(o, &usual, usual_text)) == 0;
}

const char *gs_run_option_text(const gs_run_option *o, const gs_settings *s, char text[GS_OPTION_TEXT_MOST]) {
    return gs_option_text(o->kind, (const char *)s + o->at, text, GS_OPTION_TEXT_MOST);
}

gs_settings gs_settings_in_use(const gs_worker *w) {
    gs_settings s = gs_settings_with_numbers(w->settings, w->batch);
    s.batch = w->batch; /* w->batch is 0 in an evaluation */
    const gs_dataset *data = w->train_set ? w->train_set : w->test_set;
    if (data->text) s.tokens = data->text->vocabulary.kind;
    if (data->text) s.context = data->text->context;
    const gs_by_channel none = {0};
    s.mean = w->input.scales ? w->model->scaling.mean : none;
    s.std = w->input.scales ? w->model->scaling.std : none;
    if (!s.base_batch) s.base_batch = GS_BASE_BATCH;
    if (s.accumulate < 1) s.accumulate = 1;
    if (isnan(s.final_lr) && gs_lr_schedule_falls(&s.schedule)) s.final_lr = 0;
    return s;
}

/* ---- values as numbers ---- */

double gs_option_number(gs_option_kind kind, const void *value) {
    if (kind == GS_OPTION_INT) return *(const int *)value;
    if (kind == GS_OPTION_COUNT) return (double)*(const uint64_t *)value;
    if (kind == GS_OPTION_BATCH) return (double)*(const size_t *)value;
    if (kind == GS_OPTION_FLOAT) return gs_decimal(*(const float *)value);
    return *(const double *)value;
}

void gs_option_set_number(gs_option_kind kind, void *value, double number) {
    if (kind == GS_OPTION_INT) *(int *)value = (int)number;
    if (kind == GS_OPTION_COUNT) *(uint64_t *)value = (uint64_t)number;
    if (kind == GS_OPTION_BATCH) *(size_t *)value = (size_t)number;
    if (kind == GS_OPTION_FLOAT) *(float *)value = (float)number;
    if (kind == GS_OPTION_DOUBLE) *(double *)value = number;
}

/* ---- names ---- */

#define NAME(name) #name,
#define COUNT(name) +1

static const gs_option_names names[] = {
    [GS_OPTION_LOSS] = {{"cross_entropy", "squared_error", "regression"}, 2},
    [GS_OPTION_LABELS] = {{"fine", "coarse"}, 2},
    [GS_OPTION_NAMES] = {{"own", "torchvision", "huggingface"}, 3},
    [GS_OPTION_TOKENS] = {{"chars", "bytes", "bpe", "none"}, 3},
    [GS_OPTION_WIRE] = {{"f32", "f16", "bf16"}, 3},
    [GS_OPTION_PRODUCTS] = {{"f32", "bf16", "f16"}, 3},
    [GS_OPTION_RULE] = {{"none", "linear", "sqrt"}, 3},
    [GS_OPTION_BIND] = {{"none", "cores"}, 2},
    [GS_OPTION_KEEP] = {{"last", "best"}, 2},
    [GS_OPTION_OPTIM] = {{GS_OPTIMIZERS(NAME)}, 0 GS_OPTIMIZERS(COUNT)},
};

const gs_option_names *gs_option_names_of(gs_option_kind kind) {
    return kind >= GS_OPTION_LOSS ? &names[kind] : NULL;
}

static bool is_bool(gs_option_kind kind) {
    return kind == GS_OPTION_BIND || kind == GS_OPTION_KEEP;
}

_Static_assert(sizeof(gs_loss) == sizeof(int) && sizeof(gs_labels) == sizeof(int) &&
                   sizeof(gs_tokens) == sizeof(int) && sizeof(gs_names) == sizeof(int) &&
                   sizeof(gs_wire) == sizeof(int) && sizeof(gs_precision) == sizeof(int) &&
                   sizeof(gs_lr_rule) == sizeof(int),
               "a name's number is stored as an int or as a bool");

static void set_name(gs_option_kind kind, void *value, int i) {
    if (kind == GS_OPTION_OPTIM)
        *(const gs_optimizer_ops **)value = gs_optimizers[i];
    else if (is_bool(kind))
        *(bool *)value = i != 0;
    else
        memcpy(value, &i, sizeof i);
}

static void set_default(const gs_run_option *o, void *value) {
    if (o->kind == GS_OPTION_TEXT)
        *(const char **)value = o->usual_text;
    else if (o->kind == GS_OPTION_FLAG)
        *(bool *)value = o->usual > 0;
    else if (gs_option_is_number(o->kind))
        gs_option_set_number(o->kind, value, o->usual);
    else if (gs_option_names_of(o->kind))
        set_name(o->kind, value, (int)o->usual);
}

gs_settings gs_settings_default(void) {
    gs_settings s = {0};
    for (const gs_run_option *o = gs_run_table; o->name; o++) set_default(o, (char *)&s + o->at);
    return s;
}

/* The name of a value; NULL: a program set a value that has no name. */
static const char *name_of(gs_option_kind kind, const void *value) {
    int i;
    const gs_optimizer_ops *const *optimizer = value; /* a built-in optimiser, or the caller's */
    if (kind == GS_OPTION_OPTIM) return *optimizer ? (*optimizer)->name : NULL;
    if (is_bool(kind)) return names[kind].name[*(const bool *)value];
    memcpy(&i, value, sizeof i);
    return i >= 0 && i < (int)(sizeof names->name / sizeof *names->name) ? names[kind].name[i] : NULL;
}

bool gs_option_has_name(gs_option_kind kind, const void *value) {
    return name_of(kind, value) != NULL;
}

static const char *name_or_number(gs_option_kind kind, const void *value, char *text, size_t size) {
    const char *name = name_of(kind, value);
    int i;
    if (name) return name;
    memcpy(&i, value, sizeof i);
    snprintf(text, size, "%d", i);
    return text;
}

/* ---- text ---- */

static const char *every_text(const gs_checkpoint_every *e, char *text, size_t size) {
    const bool timed = !(e->seconds <= 0 && e->seconds >= 0);
    if (e->steps > 0)
        snprintf(text, size, "%" PRIu64, e->steps);
    else
        gs_unit_print(timed ? e->seconds : GS_CHECKPOINT_SECONDS, gs_units_time, text, size);
    return text;
}

/* Kinds without numbers or names: how to read a value from text, how to print it, and the wanted format. */
#define OWN_KINDS(X)                                                                                         \
    X(SHAPE, gs_shape_parse(text, value), shape_text(value, text, size),                                     \
      "CHANNELSxHEIGHTxWIDTH, such as 1x28x28, or with xTOKENS after it")                                    \
    X(RANGE, read_range(text, value), range_text(value, text, size),                                         \
      "FIRST-LAST, such as 4-7, one step, or none; the first step is 1")                                     \
    X(AUGMENT, gs_augment_read(text, value), gs_augment_text(value, text, size),                             \
      "a list: wanted none, or resized_crop, crop:PIXELS, flip, cutout:PIXELS, or several of these with "    \
      "commas, each once, such as crop:4,flip")                                                              \
    X(OFFLOAD, gs_offload_read(text, value), gs_offload_text(*(const unsigned *)value, text, size),          \
      "none, or some of optimizer, activations and weights with commas, each once, such as "                 \
      "optimizer,activations")                                                                               \
    X(JITTER, gs_jitter_read(text, value), gs_jitter_text(value, text, size),                                \
      "RANK:TIME@SHARE%, such as 3:20ms@5%, or RANK:TIME; up to 8 with commas, each rank once; at most "     \
      "1000 s")                                                                                              \
    X(LINK, gs_link_read(text, value), gs_link_text(value, text, size),                                      \
      "LATENCY,BANDWIDTH, such as 50us,125MB/s; 0us to 10s (us, ms, s), 1B/s to 1000GB/s (B/s, kB/s, MB/s, " \
      "GB/s, or kbit/s, Mbit/s, Gbit/s)")                                                                    \
    X(NORM, gs_batch_norm_read(text, value), gs_batch_norm_text(value, text, size),                          \
      "global, local, or ghost:G with a whole number G of samples, such as ghost:16")                        \
    X(SCHEDULE, gs_lr_schedule_read(text, value), gs_lr_schedule_text(value, text, size),                    \
      "constant, linear, cosine, or step:EPOCHS@FACTOR, such as step:30,60@0.1; up to 8 epochs that grow, "  \
      "the factor above 0 and at most 1 (--pipeline-schedule is a pipeline's: gpipe, 1f1b, eager or "        \
      "interleaved)")                                                                                        \
    X(SEGMENTS, gs_recompute_read(text, value), gs_recompute_text(*(const int *)value, text, size),          \
      "all, blocks, none, or a whole number of layers from 1 to 1000000, such as 4")                         \
    X(EVERY, read_every(text, value), every_text(value, text, size),                                         \
      "a number of steps from 1 up, such as 100, or a time from 1ms to 1000000s, such as 60s")

static const char *shape_text(const gs_shape *shape, char *text, size_t size) {
    snprintf(text, size, "%s", gs_shape_product(*shape).text);
    return text;
}

static const char *range_text(const gs_step_range *r, char *text, size_t size) {
    snprintf(text, size, "%" PRIu64 "-%" PRIu64, r->first, r->last);
    return text;
}

const char *gs_option_text(gs_option_kind kind, const void *value, char *text, size_t size) {
    if (kind == GS_OPTION_FLAG) return *(const bool *)value ? "yes" : "no";
    if (kind == GS_OPTION_TEXT) return *(const char *const *)value ? *(const char *const *)value : "";
    if (gs_option_names_of(kind)) return name_or_number(kind, value, text, size);
    switch (kind) {
#define PRINT(kind, reads, prints, what)                                                                     \
    case GS_OPTION_##kind:                                                                                   \
        return prints;
        OWN_KINDS(PRINT)
    case GS_OPTION_CHANNELS:
        return gs_by_channel_text(value, text, size);
    case GS_OPTION_INT:
    case GS_OPTION_BATCH:
        snprintf(text, size, "%.0f", gs_option_number(kind, value));
        break;
    case GS_OPTION_COUNT:
        snprintf(text, size, "%" PRIu64, *(const uint64_t *)value);
        break;
    default:
        gs_decimal_print(gs_option_number(kind, value), text, size);
    }
    return text;
}

/* ---- reading ---- */

static gs_status is_not(const gs_option *o, const char *text, const char *wanted) {
    return gs_fail(GS_E_USAGE, "%s%s: '%s' is not %s", gs_option_dashes(o), o->name, gs_printable(text),
                   wanted);
}

static gs_status parse_number(const gs_option *o, const char *text, double *out) {
    const bool whole = o->kind != GS_OPTION_FLOAT && o->kind != GS_OPTION_DOUBLE;
    const int digits = whole ? 19 : 12; /* for the limits in the message */
    char *end, wanted[96];
    *out = strtod(text, &end);
    const bool is_number = strspn(text, whole ? "0123456789" : "0123456789.eE+-") == strlen(text);
    if (end > text && !*end && is_number && *out >= o->min && *out <= o->max && isfinite(*out)) return GS_OK;
    if (o->kind == GS_OPTION_BATCH) return is_not(o, text, "a whole number of samples from 1 up, or 'all'");
    snprintf(wanted, sizeof wanted, "a %snumber from %.*g to %.*g", whole ? "whole " : "", digits, o->min,
             digits, o->max);
    return is_not(o, text, wanted);
}

static gs_status parse_by_channel(const gs_option *o, const char *text) {
    gs_by_channel x;
    char wanted[96];
    if (gs_by_channel_read(text, &x) && gs_by_channel_within(&x, o->min, o->max)) {
        *(gs_by_channel *)o->value = x;
        return GS_OK;
    }
    snprintf(wanted, sizeof wanted,
             "a number from %.12g to %.12g, or up to %d with commas, one for each channel", o->min, o->max,
             GS_CHANNELS);
    return is_not(o, text, wanted);
}

static bool read_range(const char *text, gs_step_range *out) {
    gs_step_range r = {0, 0};
    char *end = NULL;
    const bool none = strcmp(text, "none") == 0, digits = isdigit((unsigned char)*text);
    errno = 0;
    if (digits) r.first = r.last = strtoull(text, &end, 10);
    if (digits && *end == '-' && isdigit((unsigned char)end[1])) r.last = strtoull(end + 1, &end, 10);
    if (!none && (!digits || *end || errno || r.first < 1 || r.last < r.first)) return false;
    *out = r;
    return true;
}

/* Read one of a few names. */
static gs_status parse_name(const gs_option *o, const char *text) {
    const gs_option_names *names = gs_option_names_of(o->kind);
    const char *typed[sizeof names->name / sizeof *names->name + 1] = {NULL};
    char what[48];
    for (int i = 0; i < names->typed; i++) {
        typed[i] = names->name[i];
        if (strcmp(text, typed[i]) == 0) return set_name(o->kind, o->value, i), GS_OK;
    }
    snprintf(what, sizeof what, "%s%s", gs_option_dashes(o), o->name);
    return gs_no_such(what, gs_printable(text), typed);
}

/* Read "best", a number of checkpoints such as "3", or both separated by a comma. */
static gs_status parse_keep(const gs_option *o, const char *text) {
    char term[32];
    gs_keep *keep = o->value;
    for (const char *at = text;; at++) {
        const size_t length = strcspn(at, ",");
        double number = 0;
        snprintf(term, sizeof term, "%.*s", (int)(length < 31 ? length : 31), at);
        if (isdigit((unsigned char)*term)) {
            const gs_option of_number = {o->name, GS_OPTION_INT, NULL, o->min, o->max, NULL, NULL};
            GS_TRY(parse_number(&of_number, term, &number));
            keep->checkpoints = (int)number;
        } else {
            GS_TRY(parse_name(o, term));
        }
        at += length;
        if (!*at) return GS_OK;
    }
}

/* Read "100", "60s" or "500ms". */
static bool read_every(const char *text, gs_checkpoint_every *out) {
    static const double steps_most = 1e15 /* as for --steps */, least = 0.001, most = 1e6;
    const size_t digits = strspn(text, "0123456789");
    const bool counts = digits > 0 && digits <= 16 && !text[digits];
    gs_checkpoint_every e = {.steps = counts ? strtoull(text, NULL, 10) : 0};
    if (!counts && (!gs_unit_read(&text, gs_units_time, &e.seconds) || *text)) return false;
    if (counts ? e.steps < 1 || (double)e.steps > steps_most : !(e.seconds >= least && e.seconds <= most))
        return false;
    *out = e;
    return true;
}

static gs_status parse_own(const gs_option *o, const char *text) {
    void *value = o->value;
    switch (o->kind) {
#define READ(kind, reads, prints, what)                                                                      \
    case GS_OPTION_##kind:                                                                                   \
        return reads ? GS_OK : is_not(o, text, what);
        OWN_KINDS(READ)
    default:
        gs_bug("no option of kind %d is typed", o->kind);
    }
}

gs_status gs_option_read(const gs_option *o, const char *text) {
    double number = 0; /* stands for a batch of all samples */
    if (o->kind == GS_OPTION_TEXT && !*text)
        return gs_fail(GS_E_USAGE, "%s%s is empty; wanted %s", gs_option_dashes(o), o->name, o->argument);
    if (o->kind == GS_OPTION_TEXT) *(const char **)o->value = text;
    if (o->kind == GS_OPTION_TEXT) return GS_OK;
    if (o->kind == GS_OPTION_CHANNELS) return parse_by_channel(o, text);
    if (o->kind == GS_OPTION_KEEP) return parse_keep(o, text);
    if (gs_option_names_of(o->kind)) return parse_name(o, text);
    if (!gs_option_is_number(o->kind)) return parse_own(o, text);
    if (o->kind != GS_OPTION_BATCH || strcmp(text, "all") != 0) GS_TRY(parse_number(o, text, &number));
    gs_option_set_number(o->kind, o->value, number);
    if (o->kind == GS_OPTION_COUNT) *(uint64_t *)o->value = strtoull(text, NULL, 10); /* exact beyond 2^53 */
    return GS_OK;
}

/* ---- as fields of JSON objects ---- */

/* Add a number, or an array with one number per channel; or nothing if there are no numbers. */
static void add_by_channel(cJSON *o, const char *key, const gs_by_channel *x) {
    cJSON *all = x->count > 1 ? cJSON_AddArrayToObject(o, key) : NULL;
    if (x->count == 1) cJSON_AddNumberToObject(o, key, gs_decimal(x->of[0]));
    for (int c = 0; all && c < x->count; c++)
        cJSON_AddItemToArray(all, cJSON_CreateNumber(gs_decimal(x->of[c])));
}

/* Adds nothing for an unset number or range. */
static void add(cJSON *o, const char *key, gs_option_kind kind, const void *value) {
    const double number = gs_option_is_number(kind) ? gs_option_number(kind, value) : (double)NAN;
    const gs_step_range *r = value;
    char room[GS_OPTION_TEXT_MOST];
    if (kind == GS_OPTION_RANGE && r->first)
        cJSON_AddItemToObject(o, key,
                              cJSON_CreateDoubleArray((double[]){(double)r->first, (double)r->last}, 2));
    else if (kind == GS_OPTION_CHANNELS)
        add_by_channel(o, key, value);
    else if (kind == GS_OPTION_FLAG)
        cJSON_AddBoolToObject(o, key, *(const bool *)value);
    else if (!isnan(number))
        cJSON_AddNumberToObject(o, key, number);
    else if (!gs_option_is_number(kind) && kind != GS_OPTION_RANGE)
        cJSON_AddStringToObject(o, key, gs_option_text(kind, value, room, sizeof room));
}

/* For "optimizer.lr", return the object "optimizer" in o and set *key to "lr". For a key without a dot, return o. */
static cJSON *object_of(cJSON *o, const char **key) {
    char name[32];
    const char *dot = strchr(*key, '.');
    if (!dot) return o;
    snprintf(name, sizeof name, "%.*s", (int)(dot - *key), *key);
    *key = dot + 1;
    cJSON *part = cJSON_GetObjectItem(o, name);
    return part ? part : cJSON_AddObjectToObject(o, name);
}

static bool is_written(const gs_run_option *option, gs_json_file file, const gs_settings *s) {
    if (!option->json[file]) return false;
    if (file != GS_JSON_LOG || !option->log_with) return true;
    return !gs_run_option_is_default(gs_run_option_named(option->log_with), s);
}

void gs_run_options_json(const gs_settings *s, gs_json_file file, cJSON *o) {
    for (const gs_run_option *option = gs_run_table; option->name; option++) {
        const char *key = option->json[file];
        if (!is_written(option, file, s)) continue;
        cJSON *part = object_of(o, &key);
        if (option->null && gs_run_option_is_default(option, s))
            cJSON_AddNullToObject(part, key);
        else
            add(part, key, option->kind, (const char *)s + option->at);
    }
}
