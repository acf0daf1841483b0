#include "tests/support/disturbed.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "tests/support/files.h"
#include "tests/support/launched.h"
#include "tests/support/training.h"
#include "persist/folder.h"

void gs_test_disturbed_start(disturbed *d, const char *options) {
    static int runs;
    char root[300], command[1200] = "";
    snprintf(root, sizeof root, "%s/%d", gs_test_folder(), runs++);
    *d = (disturbed){0};
    snprintf(d->tmp, sizeof d->tmp, "%s-tmp", root);
    snprintf(d->out, sizeof d->out, "%s-out", root);
    snprintf(d->err, sizeof d->err, "%s-err", root);
    snprintf(d->checkpoints, sizeof d->checkpoints, "%s-steps", root);
    const char *at = strchr(options, '@');
    snprintf(command, sizeof command, "exec " GS_BUILD_DIR "/gradsum launch %.*s%s%s",
             at ? (int)(at - options) : (int)strlen(options), options, at ? d->checkpoints : "",
             at ? at + 1 : "");
    assert_int_equal(mkdir(d->tmp, 0700), 0);
    const int out = open(d->out, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    const int err = open(d->err, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    d->launcher = fork();
    if (d->launcher == 0) {
        if (dup2(out, STDOUT_FILENO) < 0 || dup2(err, STDERR_FILENO) < 0) _exit(99);
        setenv("TMPDIR", d->tmp, 1);
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(99);
    }
    assert_true(out >= 0 && err >= 0 && d->launcher > 0);
    close(out);
    close(err);
}

void gs_test_disturbed_wait(const char *path, const char *part) {
    bool found = false;
    for (int i = 0; i < 30000 && !found; i++, usleep(10000)) {
        char *text;
        size_t size;
        assert_ok(gs_file_read(path, 1 << 20, &text, &size));
        found = strstr(text, part) != NULL;
        free(text);
    }
    if (!found) fail_msg("'%s' never appeared in %s: %s", part, path, gs_test_text(path, NULL));
}

/* The step of the newest checkpoint; 0 before the first one. */
static uint64_t newest(const disturbed *d) {
    char *file = NULL, note[GS_CHECKPOINT_NOTE];
    uint64_t step = 0;
    if (gs_checkpoint_is_empty(d->checkpoints)) return 0;
    if (gs_checkpoint_find(d->checkpoints, &file, note) == GS_OK) step = gs_checkpoint_step(file);
    gs_checkpoint_let_go();
    free(file);
    return step;
}

void gs_test_disturbed_wait_for_step(const disturbed *d, uint64_t step) {
    for (int i = 0; i < 30000 && newest(d) < step; i++) usleep(10000);
    if (newest(d) < step) fail_msg("step %d was never reached: %s", (int)step, gs_test_text(d->err, NULL));
}

void gs_test_disturbed_send(const disturbed *d, int rank, int number) {
    pid_t pid = 0;
    for (int i = 0; i < 300000 && !pid; i++, usleep(1000)) pid = gs_test_rank_of(d->launcher, rank);
    assert_true(pid > 0);
    assert_int_equal(kill(pid, number), 0);
}

void gs_test_disturbed_end(disturbed *d, int wanted) {
    const int status = gs_test_launcher_end(d->launcher);
    d->said = gs_test_text(d->err, NULL);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != wanted)
        fail_msg("wait status %d, wanted the exit status %d: %s", status, wanted, d->said);
    assert_int_equal(entries(d->tmp), 0);
    for (int r = 0; r < 4; r++) assert_int_equal(gs_test_rank_of(d->launcher, r), 0);
}

void gs_test_disturbed_said(const disturbed *d, const char *part) {
    if (!strstr(d->said, part)) fail_msg("wanted '%s' in: %s", part, d->said);
}

void gs_test_disturbed_sha256(const disturbed *d, const char *undisturbed) {
    const char *sha256 = gs_test_sha256("%s", undisturbed);
    const char *out = gs_test_text(d->out, NULL);
    if (!strstr(out, sha256)) fail_msg("wanted the weights %s: %s%s", sha256, out, d->said);
}

void gs_test_disturbed_went_on(const disturbed *d, int workers, int least) {
    char line[80];
    const char *out = gs_test_text(d->out, NULL);
    snprintf(line, sizeof line, "elastic  %d workers go on after step ", workers);
    const char *at = strstr(out, line);
    if (!at || atoi(at + strlen(line)) < least)
        fail_msg("wanted '%s' and %d or more in: %s%s", line, least, out, d->said);
}
