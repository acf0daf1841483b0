#include "cli/cli.h"
#include "core/clock.h"
#include "data/text_set.h"
#include "io/json.h"
#include "layer/layer.h"
#include "model/generate.h"
#include "train/run.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

enum { HELD = 4 /* maximum bytes per character */ };

typedef struct job {
    gs_settings settings; /* used: load, model, devices and threads */
    const char *prompt;
    int context, length, texts;
    gs_sampling sampling;
    bool json;

    gs_weights_info saved;
    gs_vocabulary tokenizer;         /* the one that --tokenizer names */
    const gs_vocabulary *vocabulary; /* the saved model's, else the tokenizer's, else plain bytes */
    gs_device *device;
    gs_model *model;
    gs_generator *generator;
    int *prompt_tokens;
    size_t prompt_count;
    int *tokens; /* (drawn, texts) */
    size_t drawn;
    double prompt_seconds, seconds; /* up to the first token, and for all later ones */
    char held[HELD];                /* the first bytes of an incomplete character */
    size_t held_bytes;
    FILE *out;
    bool terminal, line_open;
} job;

/* ---- output of text ---- */

/* A terminal receives no control characters. In JSON, which must be UTF-8, byte 0 and invalid bytes become U+FFFD. */
static void put(job *j, const char *text, size_t bytes, bool is_utf8) {
    char whole[HELD + 1] = {0}, shown[16];
    if (bytes == 0) return;
    memcpy(whole, text, bytes);
    j->line_open = text[bytes - 1] != '\n';
    if (j->json && (!is_utf8 || !*whole))
        fputs("\xef\xbf\xbd", j->out);
    else if (j->terminal && !j->json)
        fputs(*whole ? gs_printable_into(shown, sizeof shown, whole, "\n\t") : "\\x00", j->out);
    else
        fwrite(text, 1, bytes, j->out);
}

/* Print each character once all its bytes have arrived; print bytes that are not UTF-8 unchanged. */
static void put_held(job *j, bool last) {
    size_t at = 0;
    while (at < j->held_bytes) {
        uint32_t code;
        const int length = gs_utf8_read_part(j->held + at, j->held_bytes - at, &code);
        if (length < 0 && !last) break;
        const size_t bytes = length > 0 ? (size_t)length : 1;
        put(j, j->held + at, bytes, length > 0);
        at += bytes;
    }
    j->held_bytes -= at;
    memmove(j->held, j->held + at, j->held_bytes);
}

static void put_bytes(job *j, const char *text, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) {
        j->held[j->held_bytes++] = text[i];
        put_held(j, false);
    }
}

static void put_token(job *j, int token) {
    char room[HELD + 1];
    size_t bytes;
    const char *piece = gs_vocabulary_piece(j->vocabulary, token, room, &bytes);
    put_bytes(j, piece, bytes);
}

static void end_text(job *j) {
    put_held(j, true);
    if (j->line_open) fputc('\n', j->out);
    j->line_open = false;
}

static void put_drawn(job *j, int number) {
    for (size_t i = 0; i < j->drawn; i++) put_token(j, j->tokens[i * (size_t)j->texts + (size_t)number]);
}

/* The caller frees the text; NULL: no memory. */
static char *json_text(job *j, int number) {
    char *text = NULL;
    size_t bytes;
    if (!(j->out = open_memstream(&text, &bytes))) return NULL;
    put_drawn(j, number);
    put_held(j, true);
    fclose(j->out);
    return text;
}

/* ---- the model and the prompt ---- */

static gs_status plan(job *j, const gs_settings *s, gs_model_config *config, gs_model **out) {
    const gs_weights_info *saved = &j->saved;
    config->text = s->model;
    config->in = saved->in;
    if (j->context) config->in = (gs_shape){j->context, 1, 1, 0};
    if (!saved->has_in && !j->context)
        return gs_fail(GS_E_USAGE,
                       "%s: no 'input' in the metadata: say with --context how many tokens the model sees",
                       s->load);
    const gs_status status = gs_model_create(NULL, config, out);
    return s->model == saved->model ? gs_context(status, "%s: metadata", s->load) : status;
}

/* Find what the model's tokens stand for. Without a vocabulary, 256 tokens stand for bytes. A model may have more
 * tokens than its vocabulary, to make their number round; the surplus tokens are never drawn. */
static gs_status find_vocabulary(job *j, int tokens) {
    static const gs_vocabulary bytes = {.kind = GS_TOKENS_BYTES, .size = GS_VOCABULARY_BYTES};
    const char *path = j->settings.load, *folder = j->settings.tokenizer;
    if (folder) GS_TRY(gs_text_tokenizer(folder, j->saved.vocabulary, &j->tokenizer));
    j->vocabulary = j->saved.vocabulary    ? j->saved.vocabulary
                    : folder               ? &j->tokenizer
                    : tokens == bytes.size ? &bytes
                                           : NULL;
    if (!j->vocabulary)
        return gs_fail(GS_E_FORMAT,
                       "%s: the metadata does not say which text the model's %d tokens stand for; wanted "
                       "\"tokens\": \"bytes\" (256), or \"chars\" and a \"vocabulary\" with all of them; or "
                       "--tokenizer DIR, with the byte pairs of GPT-2",
                       path, tokens);
    const int size = j->vocabulary->size;
    if (size <= tokens) return GS_OK;
    if (!j->saved.vocabulary)
        return gs_fail(GS_E_FORMAT, "%s: the model has only %d tokens, but %s lists %d", path, tokens, folder,
                       size);
    return gs_fail(GS_E_FORMAT, "%s: the tokens in the metadata are %d %s, but the model has only %d", path,
                   size, gs_tokens_word(j->vocabulary->kind, (size_t)size), tokens);
}

static gs_status encode_prompt(job *j) {
    uint16_t *tokens;
    const gs_status encoded = gs_vocabulary_encode(j->vocabulary, j->prompt, strlen(j->prompt), "--prompt",
                                                   &tokens, &j->prompt_count);
    if (encoded == GS_E_FORMAT) return GS_E_USAGE; /* the user's error, not the file's */
    GS_TRY(encoded);
    gs_status status =
        GS_NEW(j->prompt_tokens, j->prompt_count, "the %zu tokens of --prompt", j->prompt_count);
    for (size_t i = 0; status == GS_OK && i < j->prompt_count; i++) j->prompt_tokens[i] = tokens[i];
    free(tokens);
    return status;
}

static gs_status check_weights(const job *j, const float *weights) {
    for (int p = 0; p < j->model->param_count; p++) {
        const gs_param *param = j->model->param[p];
        for (size_t i = 0; i < param->count; i++)
            if (!isfinite(weights[param->at + i]))
                return gs_fail(GS_E_DIVERGED, "%s holds %s in %s; wanted finite numbers", j->settings.load,
                               isnan(weights[param->at + i]) ? "nan" : "an infinity", param->name);
    }
    return GS_OK;
}

static gs_status load_weights(const job *j) {
    float *host = malloc((j->model->saved + 1) * sizeof *host);
    if (!host) return gs_fail(GS_E_MEMORY, "no memory for %zu weights", j->model->saved);
    gs_status status = gs_safetensors_load(j->settings.load, j->model, host);
    if (status == GS_OK) status = check_weights(j, host);
    if (status == GS_OK) status = gs_model_write_weights(j->model, host);
    free(host);
    return status;
}

/* Learned positions are trained for one context length, so these weights fit no other. */
static gs_status check_weights_fit(const job *j, const gs_model *m) {
    const int asked = j->context, trained = gs_shape_tokens(j->saved.in);
    const gs_status status = gs_safetensors_check(j->settings.load, m);
    if (status == GS_OK || !j->saved.has_in || !asked || asked == trained) return status;
    return gs_fail(GS_E_USAGE,
                   "--context %d: the model in %s was trained with %d tokens; leave --context out", asked,
                   j->settings.load, trained);
}

/* Check for errors before anything large is allocated. */
static gs_status check(job *j, gs_settings *s, gs_model_config *config) {
    gs_model *m;
    GS_TRY(gs_read_saved(s, &j->saved));
    GS_TRY(plan(j, s, config, &m));
    const int tokens = gs_layer_vocabulary(m->net), context = gs_model_targets(m);
    gs_status status = gs_generator_check(m);
    if (status == GS_OK) status = check_weights_fit(j, m);
    gs_model_free(m);
    GS_TRY(status);
    GS_TRY(find_vocabulary(j, tokens));
    const int known = j->vocabulary->size;
    if (j->sampling.top_k > known)
        return gs_fail(GS_E_USAGE, "--top-k %d: the model has %d different tokens; wanted at most %d",
                       j->sampling.top_k, known, known);
    GS_TRY(encode_prompt(j));
    if (j->prompt_count <= (size_t)context) return GS_OK;
    return gs_fail(GS_E_USAGE, "the prompt has %zu tokens, and the model sees %d: shorten it",
                   j->prompt_count, context);
}

static gs_status open_all(job *j) {
    gs_settings s = j->settings;
    /* generation does not use the loss; this one needs the least memory */
    gs_model_config config = {.max_batch = (size_t)j->texts, .loss = GS_REGRESSION};
    GS_TRY(check(j, &s, &config));
    GS_TRY(GS_NEW(j->tokens, (size_t)j->length * config.max_batch, "%d tokens", j->length));
    GS_TRY(gs_device_open(s.devices, s.threads, &j->device));
    GS_TRY(gs_model_create(j->device, &config, &j->model));
    GS_TRY(load_weights(j));
    GS_TRY(gs_generator_create(j->model, &j->sampling, &j->generator));
    gs_generator_know(j->generator, j->vocabulary->size);
    const int first = gs_vocabulary_start(j->vocabulary);
    if (j->prompt_count == 0) return gs_generator_feed(j->generator, &first, 1);
    return gs_generator_feed(j->generator, j->prompt_tokens, j->prompt_count);
}

static void close_all(job *j) {
    gs_generator_free(j->generator);
    gs_model_free(j->model);
    gs_device_close(j->device);
    gs_weights_info_free(&j->saved);
    gs_vocabulary_free(&j->tokenizer);
    free(j->prompt_tokens);
    free(j->tokens);
}

/* ---- the run ---- */

static gs_status generate(job *j) {
    const bool streams = !j->json && j->texts == 1;
    double started = gs_seconds();
    if (streams) put_bytes(j, j->prompt, strlen(j->prompt));
    for (; j->drawn < (size_t)j->length && !gs_stop_requested; j->drawn++) {
        int *token = j->tokens + j->drawn * (size_t)j->texts;
        GS_TRY(gs_generator_next(j->generator, token));
        if (streams) put_token(j, *token);
        if (streams) gs_flush_output();
        if (j->drawn > 0) continue;
        const double now = gs_seconds();
        j->prompt_seconds = now - started;
        started = now;
    }
    j->seconds = gs_seconds() - started;
    if (streams) end_text(j);
    return GS_OK;
}

/* Several texts are printed at the end, one below the other. */
static void print_texts(job *j) {
    for (int t = 0; t < j->texts; t++) {
        printf("--- text %d ---\n", t + 1);
        put_bytes(j, j->prompt, strlen(j->prompt));
        put_drawn(j, t);
        end_text(j);
    }
}

static double rate(const job *j) {
    return j->drawn > 1 ? (double)(j->drawn - 1) * j->texts / j->seconds : NAN;
}

static void print_json(job *j) {
    cJSON *texts = cJSON_CreateArray();
    for (int t = 0; t < j->texts; t++) {
        char *text = json_text(j, t);
        cJSON_AddItemToArray(texts, gs_json_text(text));
        free(text);
    }
    gs_json_print(GS_JSON_OBJECT(
        GS_FIELD("event", "end"), GS_FIELD("status", gs_stop_requested ? "interrupted" : "done"),
        GS_FIELD("texts", texts), GS_FIELD("prompt_tokens", j->prompt_count), GS_FIELD("tokens", j->drawn),
        GS_FIELD("prompt_s", j->prompt_seconds), GS_FIELD("tokens_per_s", rate(j))));
}

static int run(job *j) {
    gs_status status = open_all(j);
    if (status == GS_OK) status = generate(j);
    if (status != GS_OK && j->json) gs_json_failed(status, NULL);
    if (status != GS_OK) {
        end_text(j);
        return gs_exit_status("generate", status);
    }
    if (j->json)
        print_json(j);
    else if (j->texts > 1)
        print_texts(j);
    gs_flush_output();
    if (j->drawn > 1)
        fprintf(stderr, "%zu token%s of prompt in %.3g ms, then %s tokens/s\n", j->prompt_count,
                gs_s(j->prompt_count), 1e3 * j->prompt_seconds, gs_thousands(rate(j)));
    if (!gs_stop_requested) return GS_EXIT_OK;
    gs_tell("generate", "stopped by %s after %zu of %d tokens",
            gs_stop_requested == SIGPIPE ? "the closing of its output" : "a signal", j->drawn, j->length);
    return GS_EXIT_FAILED;
}

int gs_cmd_generate(int argc, char **argv) {
    job j = {.settings = gs_settings_default(),
             .prompt = "",
             .length = 500,
             .texts = 1,
             .sampling = {1, 0, 1},
             .out = stdout};
    int exit_status;
    const gs_option options[] = {
        {"load", GS_OPTION_TEXT, &j.settings.load, 0, 0, "FILE", "the weights (safetensors)"},
        {"prompt", GS_OPTION_TEXT, &j.prompt, 0, 0, "TEXT",
         "the beginning of the text (default: as after the end of a text or line)"},
        {"length", GS_OPTION_INT, &j.length, 1, 1e7, "N", "tokens to add"},
        {"temperature", GS_OPTION_FLOAT, &j.sampling.temperature, 0, (double)GS_TEMPERATURE_MOST, "T",
         "0: always the likeliest token; 1: as the model says; above 1: bolder"},
        {"top-k", GS_OPTION_INT, &j.sampling.top_k, 0, 1e9, "K",
         "draw from the K likeliest tokens; 0: from all"},
        {"seed", GS_OPTION_COUNT, &j.sampling.seed, 0, 1e18, "S", "the same seed draws the same text"},
        {"samples", GS_OPTION_INT, &j.texts, 1, 1024, "N", "texts to write at once"},
        {"model", GS_OPTION_TEXT, &j.settings.model, 0, 0, "NAME", "the model, if the file does not name it"},
        {"context", GS_OPTION_INT, &j.context, 0, 1 << 24, "N",
         "tokens that the model sees, if the file does not say it"},
        {"tokenizer", GS_OPTION_TEXT, &j.settings.tokenizer, 0, 0, "DIR",
         "vocab.json and merges.txt of GPT-2, if the file does not contain the tokens"},
        {"device", GS_OPTION_TEXT, &j.settings.devices, 0, 0, "NAME",
         "cpu, cl, cl:P.D, cl:P.D/KofN (gradsum devices)"},
        {"threads", GS_OPTION_INT, &j.settings.threads, 0, 1024, "T", "CPU threads; 0: all cores"},
        {"json", GS_OPTION_FLAG, &j.json, 0, 0, NULL, "the texts and the speed as a JSON object, at the end"},
        {0},
    };
    const gs_help help = {"generate --load FILE [options]",
                          "Write text, token by token, with a language model: a model that begins with an\n"
                          "embedding and gives a logit for each token that may come next. Keys and values\n"
                          "of earlier tokens are kept, so a new token costs one pass with one token. When\n"
                          "the text has filled the model's context, its last half is run again, and the\n"
                          "text continues. The speed is printed on standard error.",
                          "gradsum generate --load gpt.safetensors --prompt \"It was \" --temperature 0.8",
                          NULL};
    if (!gs_options_taken(options, &help, argc, argv, NULL, &exit_status)) return exit_status;
    if (!j.settings.load)
        return gs_exit_status("generate", gs_fail(GS_E_USAGE, "--load FILE is required: the weights to use"));
    gs_stop_on_signals();
    j.terminal = isatty(STDOUT_FILENO) == 1;
    exit_status = run(&j);
    close_all(&j);
    return exit_status;
}
