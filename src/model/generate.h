/* Text, token by token: a model of sequences says how likely each token is to come next, one of them is drawn, and it
 * becomes part of what the model sees.
 *
 *     GS_TRY(gs_generator_create(model, &settings, &g));
 *     GS_TRY(gs_generator_feed(g, prompt, count));
 *     while (more) GS_TRY(gs_generator_next(g, &token));
 *
 * The model sees each token once: attention keeps its keys and values (gs_model_cache). So a token costs one pass with
 * one token, whatever stands before it, and not one with the whole text.
 *
 * The window. A model has places for `context` tokens (gs_model_context). When the text has filled them, the last half
 * of it, context / 2 tokens, is run again at the places 0, 1, ..., and the text goes on behind it. The cache cannot be
 * shifted instead: a token's key depends on its place. So a model always sees between context / 2 and context tokens
 * (fewer at the beginning), and over a long text each token costs twice what it would without a limit.
 *
 * The draw. Of the logits x of the last token, with a temperature T > 0, token i has the weight exp((x[i] - largest) /
 * T), if it is one of the top_k largest (of equal ones at that limit, those with lower numbers). The weights are added
 * in the order of the token numbers, in double, and the first token is taken with which the sum exceeds u times the sum
 * of all, u in [0, 1). With T = 0 it is the token with the largest logit, the first of them on a tie.
 * u is made of words 0 and 1 of philox(seed, (GS_STREAM_GENERATE, number of the text), number of the token): the same
 * seed gives the same text, on any device and with any number of threads, as far as the logits are the same. Devices
 * round the logits differently, which changes about one draw in a million.
 *
 * Source: Radford et al., "Language models are unsupervised multitask learners" (2019), for top_k; Ackley, Hinton,
 * Sejnowski, "A learning algorithm for Boltzmann machines" (Cognitive Science 9, 1985), for the temperature.
 */
#pragma once

#include "model/model.h"

/* How many tokens a model of sequences sees. */
static inline int gs_model_context(const gs_model *m) {
    return gs_model_targets(m);
}

/* After this, gs_model_forward takes a part of each sequence, in a pass with `tokens` and `past` (gs_pass): for
 * inference, one token after the other. Attention then keeps keys and values of what came before, 2 max_batch context
 * width floats in each layer. GS_E_SHAPE: a layer cannot do that; the message names it. */
gs_status gs_model_cache(gs_model *);

typedef struct gs_generator gs_generator;

typedef struct gs_sampling {
    float temperature; /* 0: always the likeliest token; at most GS_TEMPERATURE_MOST */
    int top_k;         /* 0: all tokens */
    uint64_t seed;
} gs_sampling;

#define GS_TEMPERATURE_MOST 1e6f

/* For as many texts at once as the model's max_batch. The model must outlive the generator, and must not be used for
 * anything else meanwhile. GS_E_SHAPE: it is no model of sequences of tokens that can be run one token after the other;
 * the message says why. GS_E_USAGE: sampling out of its range. GS_E_MEMORY. */
gs_status gs_generator_create(gs_model *, const gs_sampling *, gs_generator **out);
/* Would it take this model? A plan is enough. Whether each layer can be run so, only gs_generator_create sees. */
gs_status gs_generator_check(const gs_model *);
void gs_generator_free(gs_generator *); /* NULL is allowed */

/* Give the next tokens of all texts, instead of drawing them: the prompt, or more of it. They are run with the next
 * gs_generator_next. GS_E_USAGE: one of them is not in 0 .. vocabulary - 1, or together they are more than the context.
 */
gs_status gs_generator_feed(gs_generator *, const int *tokens, size_t count);

/* From now on draw from tokens 0 .. known - 1 alone, 1 <= known <= vocabulary: a model may have more than its text has,
 * such as the next multiple of 64. */
void gs_generator_know(gs_generator *, int known);

/* Draw the next token of each text: tokens[i], i < max_batch. At least one token must have been fed. GS_E_DIVERGED: a
 * logit is not finite. */
gs_status gs_generator_next(gs_generator *, int *tokens);

/* The logits that the last draw was made from, (max_batch, vocabulary), until the next call. */
const float *gs_generator_logits(const gs_generator *);

/* The draw alone: of `count` finite logits; *scratch holds as many floats. */
int gs_sample(const gs_sampling *, const float *logits, int count, uint64_t text, uint64_t token,
              float *scratch);
