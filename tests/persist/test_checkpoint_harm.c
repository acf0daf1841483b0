/* Harm to checkpoints: damage, signals, SIGKILL in the middle of a write, and a full disk. */
#include "tests/support/files.h"
#include "tests/support/training.h"

#include <sys/stat.h>
#include <unistd.h>

#include "persist/folder.h"

#define RUN "train --threads 1 --batch 500 --model \"flatten, linear 16, tanh, linear 10\" "

static const char *path_in(const char *folder, int step, const char *ending) {
    return gs_test_format("%s/step-%09d.%s", folder, step, ending);
}

/* Makes checkpoints of steps 5, 10 and 12 (every run ends with one). */
static void make_three(const char *folder) {
    assert_prints(0, "the last of step 5", RUN "--steps 5 --checkpoint %s", folder);
    assert_prints(2, "step-000000005.safetensors is a checkpoint, and would be lost; choose another name",
                  "train --steps 1 --save %s/step-000000005.safetensors", folder);
    assert_prints(2, "step-000000010.safetensors is a checkpoint by its name, and would be lost",
                  "train --steps 1 --save %s/step-000000010.safetensors", folder);
    assert_prints(0, "the last of step 10", "train --threads 1 --resume %s --steps 10 --checkpoint %s",
                  folder, folder);
    assert_prints(0, "the last of step 12", "train --threads 1 --resume %s --steps 12 --checkpoint %s",
                  folder, folder);
}

/* ---- damage ---- */

static void cut(const char *path) {
    assert_int_equal(truncate(path, 2000), 0);
}

static void empty(const char *path) {
    assert_int_equal(truncate(path, 0), 0);
}

static void flip(const char *path) {
    set_byte(path, -777, byte_at(path, -777) ^ 4);
}

static void replace_by_folder(const char *path) {
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkdir(path, 0755), 0);
}

static void remove_it(const char *path) {
    assert_int_equal(unlink(path), 0);
}

static void scribble(const char *path) {
    write_times(path, "{\"step\": 12}", 1);
}

TEST(damaged) {
    static const struct {
        void (*harm)(const char *path);
        const char *ending, *sentence;
    } harms[] = {{cut, "safetensors", "it has 2000 bytes, and "},
                 {empty, "safetensors", "it has 0 bytes, and "},
                 {flip, "safetensors", "is damaged: its SHA-256 is "},
                 {replace_by_folder, "safetensors", "Is a directory"},
                 {remove_it, "safetensors", "No such file"},
                 {empty, "json", "000000012.json is damaged: it is empty"},
                 {scribble, "json", "is damaged: it is no JSON object with a 'sha256'"},
                 {replace_by_folder, "json", "Is a directory"}};
    char arguments[1400], *output;
    const char *folder = gs_test_format("%s/c", gs_test_folder());
    const char *whole = gs_test_sha256(RUN "--steps 16 --epochs 2");
    make_three(folder);
    for (size_t i = 0; i < sizeof harms / sizeof *harms; i++) {
        const char *copy = gs_test_format("%s-%zu", folder, i);
        assert_int_equal(gs_test_shell(NULL, "cp -r %s %s", folder, copy), 0);
        harms[i].harm(path_in(copy, 12, harms[i].ending));
        snprintf(arguments, sizeof arguments,
                 "train --threads 1 --resume %s --steps 16 --epochs 2 --checkpoint %s 2>&1", copy, copy);
        output = gs_test_output(0, "%s", arguments);
        if (!strstr(output, harms[i].sentence) ||
            !strstr(output, "; the checkpoint of step 10 is taken instead"))
            fail_msg("row %zu: %s", i, output);
        const char *both = gs_test_sha256("%s", arguments);
        assert_string_equal(whole, both);
    }
    flip(path_in(folder, 12, "safetensors")); /* if the user names it, it is checked, but no other is used */
    assert_prints(1, "is damaged: its SHA-256 is ", "train --resume %s", path_in(folder, 12, "safetensors"));
    empty(path_in(folder, 10, "safetensors"));
    cut(path_in(folder, 5, "safetensors"));
    assert_prints(1, "is whole: ", "train --resume %s", folder);
    cut(path_in(folder, 12, "safetensors"));
    /* the folder's contents must not get lost: a new run names each file that it will replace */
    output = gs_test_shell_output(0, "COLUMNS=999 %s/gradsum " RUN "--steps 1 --checkpoint %s 2>&1",
                                  GS_BUILD_DIR, folder);
    assert_has(output, "000000012.safetensors is damaged: it has 2000 bytes, and ",
               "000000010.safetensors is damaged: "
               "it has 0 bytes, and ",
               "000000005.safetensors is damaged: it has 2000 bytes, and ");
    assert_int_equal(gs_test_count(output, "; this run will replace it"), 3);
}

/* If only manifests are damaged, the weight files next to them stay. */
TEST(what_can_be_read_is_not_lost) {
    const char *folder = gs_test_format("%s/c", gs_test_folder());
    make_three(folder);
    for (int step = 5; step <= 12; step += step == 5 ? 5 : 2) empty(path_in(folder, step, "json"));
    for (int automatic = 0; automatic < 2; automatic++)
        assert_prints(2, "000000012.json is damaged: it is empty; a state can still be read from ",
                      RUN "--steps 16 --epochs 2 --checkpoint %s %s", folder,
                      automatic ? "--resume auto" : "");
    assert_int_equal(entries(folder), 6);
    gs_test_shell_output(0, "cd %s && rm *.json *05.s* *10.s*", folder);
    assert_prints(0, "the last of step 13",
                  "train --threads 1 --resume %s --steps 13 --epochs 2 --checkpoint %s",
                  path_in(folder, 12, "safetensors"), folder);
    assert_int_equal(entries(folder), 3);
}

/* Leftovers of a dead process are removed, but not the files of a running one (io/file.c). */
TEST(left_by_the_dead) {
    const char *folder = gs_test_format("%s/c", gs_test_folder());
    make_three(folder);
    char *output = gs_test_shell_output(
        0,
        "cd %s && t=$(%s/gradsum --version >/dev/null; "
        "printf %%08x $(printf %%s $(uname -n) | gzip -1 -c | tail -c8 | od -An -N4 -tu4)); "
        "echo half >step-000000099.safetensors.4000000-0-$t.tmp; "
        "echo half >step-000000099.json.4000000-1-$t.tmp; "
        "echo other >notes.txt; echo never >step-000000098.safetensors",
        folder, GS_BUILD_DIR);
    assert_int_equal(entries(folder), 10);
    assert_prints(0, "000000098.safetensors, which has no manifest",
                  "train --resume %s --steps 13 --epochs 2 --checkpoint %s", folder, folder);
    assert_int_equal(entries(folder), 7); /* three checkpoints, and unrelated files */
    check_holds(in_folder(folder, "notes.txt"), "other\n");
    gs_test_shell(&output, "rm %s/*.json", folder); /* a killed run never leaves this state */
    assert_prints(2, "has 3 files step-N.safetensors without their manifests step-N.json",
                  "train --resume auto --checkpoint %s", folder);
    assert_int_equal(entries(folder), 4);
}

/* ---- signals ---- */

/* `act` signals process $p, whose checkpoint folder is $d; the process ends. */
static void assert_signalled(const char *start, const char *act, const char *status, const char *sentence) {
    char *output;
    const char *folder = gs_test_format("%s/c", gs_test_folder());
    gs_test_shell(
        &output,
        "d=%s; G=%s/gradsum; M='--model softmax --threads 1 --epochs 100000 --checkpoint '$d; wait_for() { "
        "for i in $(seq 6000); do ls $d 2>/dev/null | grep -q json && return; sleep 0.05; done; echo none; "
        "}; $G %s $M --checkpoint-every 1000s >$d.out 2>&1 & p=$!; for i in $(seq 6000); do grep -q ^epoch "
        "$d.out && break; sleep 0.05; done; %s; wait $p; echo status $?; cat $d.out",
        folder, GS_BUILD_DIR, start, act);
    if (!strstr(output, status) || !strstr(output, sentence) || strstr(output, "none\n"))
        fail_msg("wanted '%s', '%s': %s", status, sentence, output);
    char *file, note[GS_CHECKPOINT_NOTE];
    gs_state *kept;
    assert_ok(gs_checkpoint_find(folder, &file, note));
    assert_ok(gs_state_read(file, &kept));
    const int steps = (int)kept->step;
    char arguments[600]; /* for a run that was never stopped */
    snprintf(arguments, sizeof arguments, "train --threads 1 --resume %s --epochs 100000 --steps %d", folder,
             steps);
    assert_prints(0, "done     ", "%s", arguments);
    gs_test_sha256("%s", arguments);
    gs_state_free(kept);
    free(file);
}

TEST(signals) {
    assert_signalled("train", "kill -TERM $p", "status 143", "stopped by a signal after step ");
    assert_signalled("train", "kill -TERM $p", "status 143", "; go on with --resume ");
    assert_signalled("train", "kill -USR1 $p; wait_for; kill -0 $p && kill -TERM $p", "status 143",
                     ", the last of step ");
    assert_signalled("launch -n 2 -- train", "kill -USR1 $p; wait_for; kill -TERM $p", "status 143",
                     ", the last of step ");
    /* a rank that writes no checkpoints requests one from rank 0 */
    assert_signalled("train --devices cpu,cpu --sync local --every 7",
                     "kill -USR1 $p; wait_for; kill -HUP $p", "status 129", ", the last of step ");
    assert_signalled("launch -n 2 -- train", "kill -USR1 $(pgrep -P $p | tail -1); wait_for; kill -TERM $p",
                     "status 143", ", the last of step ");
}

TEST(killed_while_writing) {
    gs_test_shell_output(0, "KILL_DRAWS=2 %s %s/gradsum", gs_test_source("tests/system/checkpoint.sh"),
                         GS_BUILD_DIR);
}

/* ---- a full disk ---- */

/* A file size limit stops a write in the middle, as a full disk does. */
TEST(a_full_disk) {
    const char *folder = gs_test_format("%s/c", gs_test_folder());
    const char *whole = gs_test_sha256(RUN "--steps 16 --epochs 2");
    assert_prints(1, "File too large; there is no older one",
                  "devices >/dev/null; ulimit -f 40; " GS_BUILD_DIR "/gradsum " RUN "--steps 2 "
                  "--checkpoint %s",
                  folder);
    assert_int_equal(entries(folder), 0);
    make_three(folder);
    char *output = gs_test_shell_output(1,
                                        "ulimit -f 40; %s/gradsum train --threads 1 --resume %s --steps 16 "
                                        "--epochs 2 --checkpoint %s --checkpoint-every 2 2>&1",
                                        GS_BUILD_DIR, folder, folder);
    assert_has(output, whole, "gradsum train: no checkpoint of step 16: cannot write ",
               "File too large; the older ones stay", "the last checkpoint could not be written");
    assert_int_equal(entries(folder), 6); /* no fragment of a checkpoint */
    const char *both =
        gs_test_sha256("train --threads 1 --resume %s --steps 16 --epochs 2 --checkpoint %s", folder, folder);
    assert_string_equal(whole, both);
    assert_int_equal(entries(folder), 6);
    assert_true(gs_checkpoint_is_there(folder, 16) && !gs_checkpoint_is_there(folder, 5));
}

/* A second run of any kind is rejected; a lock ends with its process, even if that is killed. If each checkpoint in a
 * folder exists only for one step, a resuming run takes the next one. */
TEST(two_runs_with_one_folder) {
    char *output;
    gs_test_shell(
        &output,
        "cd %s; G='%s/gradsum train --threads 1' N='--model softmax --batch 500 --epochs 100000'\n"
        "$G $N --checkpoint c --checkpoint-every 1 --keep 1 >out 2>&1 & p=$!\n" GS_TEST_AWAIT(
            "epoch ") "$G $N --checkpoint c --seed 2 2>&1; echo second $?\n"
                      "for n in 1 2 3 4 5 6; do rm -f out; $G --resume c >out 2>&1 & q=$!\n" GS_TEST_AWAIT(
                          "epoch ") "kill -TERM $q; wait $q; echo resumed $?; grep -v epoch out; done; kill "
                                    "-KILL $p; wait $p; rm out\n"
                                    "$G --resume c --checkpoint c >out 2>&1 & q=$!\n" GS_TEST_AWAIT(
                                        "epoch ") "kill -TERM $q; wait $q; echo third $?; ls -A c",
        gs_test_folder(), GS_BUILD_DIR);
    int resumed = 0;
    for (const char *at = output; (at = strstr(at, "resumed 143\n")); at++) resumed++;
    const char *third = strstr(output, "third 143\n");
    if (!strstr(output, "writes its checkpoints there; choose another folder") ||
        !strstr(output, "second 2\n") || resumed != 6 || !third || strstr(third, ".lock"))
        fail_msg("%d resumed: %s", resumed, output);
}
