/* Text generation, token by token: a language model predicts the probability of each possible next token; one token is
 * drawn and appended to the model's input.
 *
 *     GS_TRY(gs_generator_create(model, &settings, &g));
 *     GS_TRY(gs_generator_feed(g, prompt, count));
 *     while (more) GS_TRY(gs_generator_next(g, &token));
 *
 * The model processes each token once, because attention keeps the tokens' keys and values (gs_model_cache). A token
 * therefore costs a pass over one token, not over the whole text.
 *
 * The window. A model has positions for `context` tokens (gs_model_targets). When the text has filled them, its last
 * context / 2 tokens are processed again at positions 0, 1, ..., and generation continues after them. Shifting the
 * cache instead would be wrong, because a token's key depends on its position. The model always sees between context /
 * 2 and context tokens (fewer at the beginning), so in a long text each token costs twice as much as without a limit.
 *
 * The draw. For the logits x of the last token and a temperature T > 0, token i has the weight exp((x[i] - largest) /
 * T) if x[i] is among the top_k largest (on a tie at that limit, tokens with lower numbers take precedence), else 0.
 * The weights are added in double precision, in the order of the token numbers. The first token whose partial sum
 * exceeds u times the total is drawn, with u in [0, 1). With T = 0 the token with the largest logit is drawn (on a tie,
 * the first such token). u consists of words 0 and 1 of philox(seed, (GS_STREAM_GENERATE, index of the text), index of
 * the token): if the logits are the same, a seed gives the same text on any device and with any number of threads.
 * Devices round logits differently, which changes about one draw in a million.
 *
 * Source: Radford et al., "Language models are unsupervised multitask learners" (2019), for top_k; Ackley, Hinton,
 * Sejnowski, "A learning algorithm for Boltzmann machines" (Cognitive Science 9, 1985), for the temperature. */
#pragma once

#include "model/model.h"

/* Let gs_model_forward process parts of sequences, in passes with `tokens` and `past` (gs_pass), for token-by-token
 * inference. Attention then keeps the keys and values of earlier tokens: 2 max_batch context width floats in each
 * layer. GS_E_SHAPE: a layer does not support that; the message names it. */
gs_status gs_model_cache(gs_model *);

typedef struct gs_generator gs_generator;

typedef struct gs_sampling {
    float temperature; /* 0: always the most likely token; at most GS_TEMPERATURE_MOST */
    int top_k;         /* 0: all tokens */
    uint64_t seed;
} gs_sampling;

#define GS_TEMPERATURE_MOST 1e6f

/* A generator generates max_batch texts at once. The model must outlive it, and must not be used for anything else in
 * the meantime. GS_E_SHAPE: the model is not a language model (token numbers in; for each, a logit per token out), or
 * cannot run token by token. GS_E_USAGE: sampling out of range. GS_E_MEMORY. */
gs_status gs_generator_create(gs_model *, const gs_sampling *, gs_generator **out);
/* Check only a model's shapes; the model may be a plan. gs_generator_create also checks each layer. */
gs_status gs_generator_check(const gs_model *);
void gs_generator_free(gs_generator *); /* NULL is allowed */

/* Append the given tokens to all texts: the prompt, or more of it. The next gs_generator_next processes them.
 * GS_E_USAGE: a token is not in 0 .. vocabulary - 1, or the context is full. */
gs_status gs_generator_feed(gs_generator *, const int *tokens, size_t count);

/* From now on, draw only from tokens 0 .. known - 1, with 1 <= known <= vocabulary. A model's vocabulary may be larger
 * than its text's, for example because it was rounded up to a multiple of 64. */
void gs_generator_know(gs_generator *, int known);

/* Draw the next token of each text: tokens[i], i < max_batch. At least one token must have been fed. GS_E_DIVERGED: a
 * logit is not finite. */
gs_status gs_generator_next(gs_generator *, int *tokens);

/* The logits used by the last draw, (max_batch, vocabulary), valid until the next call. */
const float *gs_generator_logits(const gs_generator *);

/* Makes just the draw, from `count` finite logits. */
int gs_sample(const gs_sampling *, const float *logits, int count, uint64_t text, uint64_t token);
