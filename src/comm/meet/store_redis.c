/* A server of Redis as the store (store.h): the run is one hash there, "gradsum:NAME", with a field for each key. Ranks
 * that start again have another one, "gradsum-2:NAME", and the launches have "gradsum-launch:NAME". A server is open to
 * all who reach it, and may be used by others. So each value is signed:
 *
 *     field "rank-1"   HMAC-SHA256(key of the run; "NAME/rank-1", value) in hex, a blank, the value
 *
 * (of others than the first: "-2 NAME/rank-1"), and what is not signed so is not seen, and counted. The server forgets
 * the hash after two time-outs, 3 s after a rank has put why it fails, or when the last rank has left; that of launches
 * two time-outs after their last beat. A node that comes later than these 3 s waits for its time-out. Were the reason
 * kept for longer, it would also meet whoever has mended it and starts the run again: that one has the same name, and
 * nothing else here tells the two apart.
 *
 * Source: Redis commands HSET, HGET, HGETALL, HEXISTS, HLEN, HDEL, DEL, TTL, EXPIRE, EVAL (redis.io/commands).
 */
#include "comm/meet/secret.h"
#include "comm/meet/seen.h"
#include "core/clock.h"

#include <fcntl.h>
#include <hiredis/hiredis.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

enum { HEX = 2 * GS_SECRET, SOON = 3 /* seconds after a fault */ };
static const double pause_s = 0.02 /* between two looks */, again = 0.2, answers = 2;

typedef struct redis_store {
    gs_store store;
    redisContext *redis;
    char hash[100], name[64];
    char corner[16]; /* of an attempt: "-2"; of the launches: "-launch"; "" */
    unsigned char key[GS_SECRET];
    char where[GS_STORE_HOST + 40];
    int seconds; /* until the server forgets */
    gs_seen seen;
    int strangers;
} redis_store;

static void corner_of(int attempt, char corner[16]) {
    corner[0] = '\0';
    if (attempt == GS_ATTEMPT_LAUNCHES)
        snprintf(corner, 16, "-launch");
    else if (attempt > 1)
        snprintf(corner, 16, "-%d", attempt);
}

static gs_status lost(const redis_store *r) {
    return gs_fail(GS_E_PEER, "%s, where the ranks meet, no longer answers: %s", r->where,
                   r->redis->err ? r->redis->errstr : "not as Redis does");
}

/* Run a command whose reply is of this type; NULL: it is not. */
static redisReply *ask(redis_store *r, int type, int words, const char **word) {
    redisReply *reply = redisCommandArgv(r->redis, words, word, NULL);
    if (reply && reply->type == type) return reply;
    if (reply) freeReplyObject(reply);
    return NULL;
}

static void sign(const redis_store *r, const char *key, const char *value, char hex[HEX + 1]) {
    unsigned char mac[GS_SECRET];
    char label[GS_STORE_KEY + 100]; /* no NAME holds a blank */
    snprintf(label, sizeof label, "%s%s%s/%s", r->corner, *r->corner ? " " : "", r->name, key);
    gs_key_derive(r->key, label, value, strlen(value), mac);
    for (int i = 0; i < GS_SECRET; i++) snprintf(hex + (size_t)2 * (size_t)i, 3, "%02x", mac[i]);
}

/* The value in what a field holds; NULL: it is not signed by one of this run. */
static const char *checked(const redis_store *r, const char *key, const char *field) {
    char hex[HEX + 1];
    if (strlen(key) >= GS_STORE_KEY || strlen(field) < HEX + 1 || field[HEX] != ' ' ||
        strlen(field + HEX + 1) >= GS_STORE_VALUE)
        return NULL;
    sign(r, key, field + HEX + 1, hex);
    unsigned char differ = 0;
    for (int i = 0; i < HEX; i++) differ |= (unsigned char)(hex[i] ^ field[i]);
    return differ ? NULL : field + HEX + 1;
}

/* ---- the store's functions ---- */

/* The server is to forget the hash after so many seconds, or sooner if that was said before: a fault must not be found
 * by the next run of this name. */
static gs_status expire(redis_store *r, int seconds) {
    char number[16];
    snprintf(number, sizeof number, "%d", seconds);
    redisReply *left = ask(r, REDIS_REPLY_INTEGER, 2, (const char *[]){"TTL", r->hash});
    if (!left) return lost(r);
    const bool is_sooner = left->integer >= 0 && left->integer <= seconds;
    freeReplyObject(left);
    if (is_sooner) return GS_OK;
    redisReply *set = ask(r, REDIS_REPLY_INTEGER, 3, (const char *[]){"EXPIRE", r->hash, number});
    if (!set) return lost(r);
    freeReplyObject(set);
    return GS_OK;
}

/* In one step, so that two who put at once do not both find the last place. *holds: 0: it is there now; 1: it was there
 * before; -N: there is no room beside N others. */
static gs_status set_new(redis_store *r, const char *key, const char *field, int *holds) {
    static const char script[] = "if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 then return 1 end "
                                 "local holds, most = redis.call('HLEN', KEYS[1]), tonumber(ARGV[3]) "
                                 "if holds >= most and ARGV[1] ~= 'fault' then return -holds end "
                                 "redis.call('HSET', KEYS[1], ARGV[1], ARGV[2]) return 0";
    char most[16];
    snprintf(most, sizeof most, "%d", gs_store_most());
    redisReply *set =
        ask(r, REDIS_REPLY_INTEGER, 7, (const char *[]){"EVAL", script, "1", r->hash, key, field, most});
    if (!set) return lost(r);
    *holds = (int)set->integer;
    freeReplyObject(set);
    return GS_OK;
}

static gs_status redis_put(gs_store *s, const char *key, char *value, bool *there) {
    redis_store *r = (redis_store *)s;
    char field[HEX + 1 + GS_STORE_VALUE];
    int holds = 0;
    sign(r, key, value, field);
    snprintf(field + HEX, sizeof field - HEX, " %.*s", GS_STORE_VALUE - 1, value);
    GS_TRY(set_new(r, key, field, &holds));
    if (holds < 0) return gs_store_refuse(s, r->where, -holds);
    *there = holds == 1;
    const bool fails = gs_store_is_fault(key) || strncmp(key, "absent-", 7) == 0;
    GS_TRY(expire(r, fails ? SOON : r->seconds));
    if (!*there) return GS_OK;
    redisReply *get = ask(r, REDIS_REPLY_STRING, 3, (const char *[]){"HGET", r->hash, key});
    if (!get) return lost(r);
    const char *old = checked(r, key, get->str);
    snprintf(value, GS_STORE_VALUE, "%s", old ? old : "");
    freeReplyObject(get);
    if (old) return GS_OK;
    return gs_fail(
        GS_E_PEER,
        "%s holds '%s' of a run with the same name, '%s', and another secret: give the run another name "
        "(redis://HOST:PORT/NAME), or all of it the same secret",
        r->where, key, r->name);
}

static gs_status show(redis_store *r, const redisReply *all, gs_store_seen *seen, void *context, bool *any) {
    for (size_t i = 0; i + 1 < all->elements; i += 2) {
        const redisReply *key = all->element[i], *field = all->element[i + 1];
        if (key->type != REDIS_REPLY_STRING || field->type != REDIS_REPLY_STRING) continue;
        if (!key->str[0] || strlen(key->str) >= GS_STORE_KEY) continue; /* none of ours */
        const bool new = !gs_seen_has(&r->seen, key->str);
        if (!new && !gs_store_is_beat(key->str)) continue;
        if (new && !gs_seen_add(&r->seen, key->str))
            return gs_fail(GS_E_MEMORY, "no memory for what others say");
        const char *value = checked(r, key->str, field->str);
        r->strangers += new &&value == NULL;
        *any = *any || new;
        if (value) GS_TRY(seen(context, key->str, value));
    }
    return GS_OK;
}

static gs_status redis_look(gs_store *s, double seconds, gs_store_seen *seen, void *context) {
    redis_store *r = (redis_store *)s;
    const double until = gs_seconds() + seconds;
    for (bool any = false; !any;) {
        redisReply *all = ask(r, REDIS_REPLY_ARRAY, 2, (const char *[]){"HGETALL", r->hash});
        if (!all) return lost(r);
        gs_status status = show(r, all, seen, context, &any);
        freeReplyObject(all);
        GS_TRY(status);
        if (any || gs_seconds() >= until) break;
        gs_nap(pause_s);
    }
    return GS_OK;
}

static void redis_strangers(gs_store *s, char *text, size_t size) {
    const int n = ((redis_store *)s)->strangers;
    text[0] = '\0';
    if (n > 0)
        snprintf(text, size, "; %d entr%s there of another secret: it must be the same on all machines", n,
                 n == 1 ? "y is" : "ies are");
}

static void redis_leave(gs_store *s, const char *key) {
    redis_store *r = (redis_store *)s;
    if (!key) return;
    redisReply *reply = ask(r, REDIS_REPLY_INTEGER, 3, (const char *[]){"HDEL", r->hash, key});
    if (reply) freeReplyObject(reply);
}

/* At once, so that what others have removed meanwhile does not come back. */
static gs_status redis_beat(gs_store *s, const char *key, const char *value) {
    static const char script[] =
        "if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return 0 end "
        "redis.call('HSET', KEYS[1], ARGV[1], ARGV[2]) redis.call('EXPIRE', KEYS[1], ARGV[3]) return 1";
    redis_store *r = (redis_store *)s;
    char field[HEX + 1 + GS_STORE_VALUE], seconds[16];
    sign(r, key, value, field);
    snprintf(field + HEX, sizeof field - HEX, " %.*s", GS_STORE_VALUE - 1, value);
    snprintf(seconds, sizeof seconds, "%d", r->seconds);
    redisReply *set =
        ask(r, REDIS_REPLY_INTEGER, 7, (const char *[]){"EVAL", script, "1", r->hash, key, field, seconds});
    if (!set) return lost(r);
    const bool there = set->integer == 1;
    freeReplyObject(set);
    return there ? GS_OK : gs_fail(GS_E_PEER, "%s has forgotten the run '%s'", r->where, r->name);
}

static void redis_clear(gs_store *s, int attempt) {
    redis_store *r = (redis_store *)s;
    char hash[sizeof r->hash], corner[16];
    corner_of(attempt, corner);
    snprintf(hash, sizeof hash, "gradsum%s:%s", corner, r->name);
    redisReply *reply = ask(r, REDIS_REPLY_INTEGER, 2, (const char *[]){"DEL", hash});
    if (reply) freeReplyObject(reply);
}

static void redis_free(gs_store *s) {
    redis_store *r = (redis_store *)s;
    if (r->redis) redisFree(r->redis);
    gs_seen_free(&r->seen);
    free(r);
}

static const gs_store_ops redis_ops = {redis_put,  redis_look,  redis_strangers, redis_leave,
                                       redis_beat, redis_clear, redis_free};

/* ---- connecting ---- */

double gs_store_memory(double timeout) {
    return timeout < 1e6 ? 2 * (int)timeout + 10 : 2000000;
}

static struct timeval timeval_of(double seconds) {
    return (struct timeval){(time_t)seconds, (suseconds_t)((seconds - floor(seconds)) * 1e6)};
}

/* Is it Redis, and does it take commands without a password? */
static bool connect_once(redis_store *r, const gs_meet_place *p, double until, char *why, size_t size) {
    const struct timeval patience = timeval_of(fmin(answers, fmax(0.1, until - gs_seconds())));
    r->redis = redisConnectWithTimeout(p->host, p->port, patience);
    if (r->redis && !r->redis->err) {
        fcntl(r->redis->fd, F_SETFD, FD_CLOEXEC); /* not for processes that a launch starts */
        redisSetTimeout(r->redis, patience);
        redisReply *reply = redisCommand(r->redis, "PING");
        const bool right = reply && reply->type == REDIS_REPLY_STATUS;
        snprintf(why, size, "%s", reply && reply->type == REDIS_REPLY_ERROR ? reply->str : r->redis->errstr);
        if (reply) freeReplyObject(reply);
        if (right)
            redisSetTimeout(r->redis, timeval_of(answers)); /* who came late is as patient then as others */
        if (right) return true;
    } else {
        snprintf(why, size, "%s", r->redis ? r->redis->errstr : "no memory");
    }
    if (r->redis) redisFree(r->redis);
    r->redis = NULL;
    return false;
}

gs_status gs_store_open_redis(const gs_rendezvous *rv, const gs_meet_place *p,
                              const unsigned char key[GS_SECRET], double until, gs_store **out) {
    char why[200] = "";
    redis_store *r = calloc(1, sizeof *r);
    *out = NULL;
    if (!r) return gs_fail(GS_E_MEMORY, "no memory to meet the other ranks");
    until += gs_seconds() - gs_awake_seconds(); /* an attempt may block for seconds */
    r->store.ops = &redis_ops;
    memcpy(r->key, key, GS_SECRET);
    snprintf(r->name, sizeof r->name, "%s", p->name);
    corner_of(rv->attempt, r->corner);
    snprintf(r->hash, sizeof r->hash, "gradsum%s:%s", r->corner, p->name);
    snprintf(r->where, sizeof r->where, "Redis at %s port %d", p->host, p->port);
    r->seconds = (int)gs_store_memory(rv->timeout);
    while (!connect_once(r, p, until, why, sizeof why)) {
        const bool stopped = rv->stop && *rv->stop;
        if (!stopped && gs_seconds() < until) {
            gs_nap(again);
            continue;
        }
        redis_free(&r->store);
        if (stopped)
            return gs_fail(GS_E_INTERRUPTED, "rank %d: stopped by a signal while it looked for the others",
                           rv->rank);
        return gs_fail(GS_E_PEER, "%srank %d: no server of Redis could be used at %s port %d within %g s: %s",
                       rv->attempt == GS_ATTEMPT_LAUNCHES ? "node " : "", rv->rank, p->host, p->port,
                       rv->timeout, why);
    }
    gs_store_own_address(r->redis->fd, r->store.address, sizeof r->store.address);
    *out = &r->store;
    return GS_OK;
}
