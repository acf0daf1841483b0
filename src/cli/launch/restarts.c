/* launch --restarts N: when a rank was lost, all ranks start again, in a new attempt.
 *
 *     attempt 1   steps 1 .. 40 | checkpoint | 41 .. 57 X              rank 2 is killed, and the others end
 *     attempt 2                                41 .. 57 .. 80          with --resume auto
 *
 * The folder is that of the command's --checkpoint; without one, or before the first checkpoint, an attempt begins as
 * the first did. Training is deterministic and a checkpoint has all that it needs (train/state.h), so the last attempt
 * ends with the bits of a run in which no rank was lost.
 *
 * What would fail again is not started again: bad usage, weights that have diverged or differ, what a rank finds wrong
 * before the first step, and two losses in turn without a step between them. Nor is what was asked to stop.
 *
 * Each attempt is new to the command: it has a folder to meet in, and `--log DIR` and `--digest DIR` become
 * DIR-restart-1 and so on, because the first attempt has written into DIR.
 */
#include "cli/launch/launch_state.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/text.h"
#include "train/checkpoint/folder.h"

enum { MORE = 6 }; /* words that an attempt adds: --resume, --log and --digest, each with its value */

struct gs_restarts {
    const gs_launch *first;
    gs_launch attempt;
    int done;           /* restarts */
    bool idle;          /* the attempt before made no step */
    const char *folder; /* of --checkpoint; NULL: none */
    bool ours;          /* the checkpoints in it are of this run */
    char **words;       /* of this attempt's command; NULL: it is the first one's */
    char *file;         /* the checkpoint that it goes on from; NULL: none */
    char *log, *digest; /* its folders; NULL: none */
};

/* ---- what it goes with ---- */

gs_status gs_launch_check_one_node(const gs_launch *l, const char *option) {
    if (l->nodes == 1 && !l->hosts) return GS_OK;
    return gs_fail(GS_E_USAGE,
                   "%s is for the processes of one machine; on several, torchrun --max-restarts N or Slurm's "
                   "--requeue starts train again, which goes on with --checkpoint DIR --resume auto",
                   option);
}

gs_status gs_restarts_check(const gs_launch *l) {
    const char *keep = gs_launch_option(l, "--keep");
    if (l->restarts == 0) return GS_OK;
    GS_TRY(gs_launch_check_one_node(l, "--restarts"));
    if (l->meet)
        return gs_fail(GS_E_USAGE,
                       "--restarts %d: the ranks meet in a new folder each time they start; leave --meet out",
                       l->restarts);
    if (strcmp(l->command[0], "train") != 0)
        return gs_fail(GS_E_USAGE, "--restarts %d is for train; '%s' has nothing to go on with", l->restarts,
                       l->command[0]);
    if (keep && strstr(keep, "best") && gs_launch_option(l, "--checkpoint"))
        return gs_fail(GS_E_USAGE,
                       "--restarts %d: a run that goes on from a checkpoint does not know the best epoch "
                       "before it; leave out --keep best, or --checkpoint",
                       l->restarts);
    return GS_OK;
}

/* Does the command itself go on from this folder, or from a file in it? */
static bool resumes_from(const gs_launch *l, const char *folder) {
    const char *resume = gs_launch_option(l, "--resume");
    const size_t length = strlen(folder);
    if (!resume || strncmp(resume, folder, length) != 0) return false;
    return resume[length] == '\0' || resume[length] == '/' || (length > 0 && folder[length - 1] == '/');
}

gs_status gs_restarts_create(const gs_launch *l, gs_restarts **out) {
    gs_restarts *r = *out = calloc(1, sizeof *r);
    if (!r) return gs_fail(GS_E_MEMORY, "no memory for --restarts");
    r->first = l;
    r->attempt = *l;
    r->folder = l->restarts > 0 ? gs_launch_option(l, "--checkpoint") : NULL;
    /* In a folder of another run's checkpoints train refuses to begin; and if a rank is lost before it has looked,
     * they must not be taken for this run's. */
    r->ours = r->folder && (gs_checkpoint_is_empty(r->folder) || resumes_from(l, r->folder));
    return GS_OK;
}

static void forget_attempt(gs_restarts *r) {
    free(r->words);
    free(r->file);
    free(r->log);
    free(r->digest);
    r->words = NULL;
    r->file = r->log = r->digest = NULL;
}

void gs_restarts_free(gs_restarts *r) {
    if (!r) return;
    forget_attempt(r);
    free(r);
}

const gs_launch *gs_restarts_attempt(const gs_restarts *r) {
    return &r->attempt;
}

/* ---- whether ---- */

/* NULL: another attempt may do better. */
static const char *why_not(const gs_restarts *r, const gs_launch_failure *f) {
    if (f->lost) return !f->stepped && r->idle ? "twice in turn no step was made" : NULL;
    if (f->code == GS_OK) return "no rank was lost";
    if (f->code == GS_E_USAGE || f->code == GS_E_MODEL) return "it would fail again";
    if (f->code == GS_E_DIVERGED) return "it would diverge again";
    if (f->code == GS_E_DIFFER) return "the last checkpoint may have such weights";
    return f->stepped ? NULL : "it failed before its first step, and would again";
}

/* ---- from where ---- */

/* DIR -> DIR-restart-2. */
static bool rename_folder(const gs_restarts *r, const char *option, char **name) {
    const char *folder = gs_launch_option(r->first, option);
    if (!folder) return true;
    size_t length = strlen(folder);
    while (length > 1 && folder[length - 1] == '/') length--;
    if (asprintf(name, "%.*s-restart-%d", (int)length, folder, r->done) >= 0) return true;
    *name = NULL;
    return false;
}

static int add_option(char **words, int n, const char *option, const char *value) {
    if (!value) return n;
    words[n++] = (char *)option;
    words[n++] = (char *)value;
    return n;
}

/* The command of the first attempt, and what is new; of an option that is given twice the last one counts. */
static bool make_command(gs_restarts *r) {
    int n = 0;
    while (r->first->command[n]) n++;
    r->words = calloc((size_t)n + MORE + 1, sizeof *r->words);
    if (!r->words || !rename_folder(r, "--log", &r->log) || !rename_folder(r, "--digest", &r->digest))
        return false;
    memcpy(r->words, r->first->command, (size_t)n * sizeof *r->words);
    n = add_option(r->words, n, "--resume", r->file ? "auto" : NULL);
    n = add_option(r->words, n, "--log", r->log);
    add_option(r->words, n, "--digest", r->digest);
    r->attempt.command = r->words;
    return true;
}

static void find_checkpoint(gs_restarts *r) {
    char note[GS_CHECKPOINT_NOTE] = "";
    if (!r->ours || gs_checkpoint_is_empty(r->folder)) return;
    if (gs_checkpoint_find(r->folder, &r->file, note) != GS_OK)
        snprintf(note, sizeof note, "%s", gs_message());
    gs_checkpoint_let_go(); /* nobody else writes there now */
    if (*note) gs_launch_say("%s", note);
}

static void say_where(const gs_restarts *r, char *what, size_t size) {
    gs_append(what, size, "; restart %d of %d: ", r->done, r->first->restarts);
    if (r->file)
        gs_append(what, size, "it goes on after step %" PRIu64 " (%s)", gs_checkpoint_step(r->file), r->file);
    else if (r->folder)
        gs_append(what, size, "it begins as before, because there is no checkpoint of this run in %s",
                  r->folder);
    else
        gs_append(what, size, "it begins as before, because the command has no --checkpoint");
    if (r->log) gs_append(what, size, "; its log is in %s", r->log);
}

bool gs_restarts_next(gs_restarts *r, const gs_launch_failure *f, char *what, size_t size) {
    *what = '\0';
    if (r->first->restarts == 0) return false;
    const char *no = why_not(r, f);
    if (no) {
        gs_append(what, size, "; not started again: %s", no);
        return false;
    }
    if (r->done == r->first->restarts) {
        gs_append(what, size, "; that was the last of %d restart%s", r->done, gs_s((unsigned)r->done));
        return false;
    }
    r->done++;
    r->idle = !f->stepped;
    forget_attempt(r);
    find_checkpoint(r);
    if (!make_command(r)) {
        gs_append(what, size, "; no memory to start it again");
        return false;
    }
    say_where(r, what, size);
    return true;
}
