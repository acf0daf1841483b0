/* `gradsum doctor`: the state of this machine and of the machines of a run. One machine plays several here;
 * tests/net/net.sh tests separate hosts. */
#include "core/usable.h"
#include "tests/support/devices.h"
#include "tests/support/launched.h"
#include "tests/support/program.h"

#include <unistd.h>

/* In a script, `doctor R ...` plays the machine of node rank R. $M is "--meet tcp://..." for two nodes; $M1, $M2 and
 * $M3 use other ports. Output lines start with "nR: ", where $L can replace "n". All doctors run at once and share a
 * secret. */
static char *run(const char *script) {
    char *output = gs_test_shell_output(
        0,
        "export GRADSUM_SECRET=0123456789abcdef0123 GRADSUM_TIMEOUT=200 HOME=%s\n"
        "L=n M='--meet tcp://127.0.0.1:%d --nodes 2' M1='--meet tcp://127.0.0.1:%d --nodes 2'\n"
        "M2='--meet tcp://127.0.0.1:%d --nodes 2' M3='--meet tcp://127.0.0.1:%d --nodes 2'\n"
        "doctor() { r=$1; shift; { timeout 400 %s/gradsum doctor --node-rank $r \"$@\" 2>&1; "
        "echo exit $?; } | sed \"s/^/$L$r: /\"; }\n%s\nwait",
        gs_test_folder(), gs_test_free_port(), gs_test_free_port(), gs_test_free_port(), gs_test_free_port(),
        GS_BUILD_DIR, script);
    gs_test_fits(output, 80 + strlen("n0: "));
    return output;
}

static void says(const char *script, const char *const *wanted) {
    char *output = run(script);
    gs_test_has(output, wanted, __FILE__, __LINE__);
}

TEST(a_machine_alone) {
    char *output;
    const int status = gs_test_program(&output, "doctor -n %d", gs_usable_here().cpus + 1);
    gs_test_fits(output, 80);
    assert_has(output, "version    gradsum ", "cores   ", "memory  ", "cpu  ",
               "fashion-mnist-small: 6000 samples", "network  ");
    assert_int_equal(status == 0, strstr(output, "Nothing is wrong; see the note") != NULL);
    assert_int_equal(status == 0, strstr(output, "WRONG") == NULL);
}

/* The kernels of a folder, of which one divides as fast compilers do, or an operator's last bits differ. */
static void bits_differ(const char *formula, const char *instead, const char *file, const char *says) {
    char *output =
        gs_test_shell_output(1,
                             "cd %s && cp %s/cl/*.cl* . && sed -i 's|%s|%s|' %s && "
                             "GRADSUM_KERNELS=. %s/gradsum doctor --exact 2>&1",
                             gs_test_folder(), GS_SOURCE_DIR, formula, instead, file, GS_BUILD_DIR);
    gs_test_fits(output, 80);
    assert_has(output, "ok     cpu        --exact computes what every other machine does",
               "WRONG  cl:0.0     ", says, "-> leave it out of --devices");
}

TEST(the_bits_of_other_machines) {
    assert_has(gs_test_output(0, "doctor --exact"),
               "ok     cpu        --exact computes what every other machine does");
    if (!gs_test_has_opencl()) return;
    bits_differ("store(a / b", "store(a * (1 / b)", "arithmetic.cl", "division is not correctly rounded");
    bits_differ("a, b, a + b", "a, b, (a + b) * 1.0000002f", "add.cl",
                "a multi-layer perceptron (--model mlp --batch 64");
}

/* Each line is a JSON object; the last line gives the number of problems. */
TEST(as_json) {
    char *rest;
    int checks = 0, wrong = 0, end = -1;
    char *output = gs_test_output(1, "doctor --json --data /no/such");
    for (char *line = strtok_r(output, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        cJSON *o = gs_test_parse(line);
        const char *event = gs_test_field(o, "event")->valuestring;
        if (strcmp(event, "check") == 0) {
            checks++;
            wrong += strcmp(gs_test_field(o, "status")->valuestring, "wrong") == 0;
        } else {
            assert_string_equal(event, "end");
            assert_string_equal(gs_test_field(o, "status")->valuestring, "wrong");
            end = gs_test_field(o, "wrong")->valueint;
        }
    }
    assert_true(checks >= 6);
    assert_true(wrong >= 1);
    assert_int_equal(end, wrong);
}

TEST(machines_that_fit) {
    static const char *const wanted[] = {"n0: ok     node       1: ",
                                         "n1: ok     node       0: ",
                                         "n0:        0 - 1  ",
                                         "n1:        0 - 1  ",
                                         "n0: ok     data       the same on all: ",
                                         "n0: exit 0",
                                         "n1: exit 0",
                                         NULL};
    says("doctor 1 $M & doctor 0 $M", wanted);
}

#define WAITS "f0: note   waiting    node rank 1 has not come yet; waiting for at most "

/* All nodes that joined agree on which one is missing, and on what differs. */
static const char *wrong_is_not_named(double timeout, void *context) {
    (void)context;
    static const char *const wanted[] = {
        "a0: WRONG  absent     node rank 2 did not come within ",
        "a1: WRONG  absent     node rank 2 did not come within ",
        "a0:                -> on that machine: gradsum doctor --meet tcp://127.0.0.1:",
        "a0:        0 - 1  ",
        "a0: exit 1",
        "a1: exit 1",
        "b0: WRONG  data       node rank 0 has none; 1 has fashion-mnist-small, 6000",
        "b1: WRONG  data       node rank 0 has none; 1 has fashion-mnist-small, 6000",
        "b1: WRONG  processes  node rank 0 has 1; 1 has 2",
        "b1: exit 1",
        "d1: WRONG  meeting    rank 1: nobody could be reached at 127.0.0.1 port ",
        "d1: WRONG  interface  this machine has no network interface or address 'eth77'",
        "d1: exit 1",
        "d1:                -> see that a doctor runs on node rank 0, whose address is in",
        WAITS,
        "f0: WRONG  absent     node rank 1 did not come within ",
        NULL};
    char *output = run(
        gs_test_format("(L=a; doctor 1 $M --nodes 3 & doctor 0 $M --nodes 3 --timeout %g; wait)&\n"
                       "(L=b; doctor 1 $M1 -n 2 & doctor 0 $M1 --data /no/such; wait)&\n"
                       "(L=d; doctor 1 $M2 --timeout 0.2; doctor 1 $M2 --timeout 0.2 --interface eth77)&\n"
                       "(L=f; doctor 0 $M3 --timeout %g)&",
                       timeout, timeout));
    for (const char *const *w = wanted; *w; w++)
        if (!strstr(output, *w)) return gs_test_wrong("wanted '%s' in: %s", *w, output);
    /* the doctor reports this after 1.5 s or later */
    const double left = strtod(strstr(output, WAITS) + strlen(WAITS), NULL);
    return left > 0 && left <= timeout - 1 ? NULL : gs_test_wrong("it waited %g s: %s", left, output);
}

TEST(what_is_wrong_is_named) {
    gs_test_patiently(3, wrong_is_not_named, NULL);
}

TEST(wrong_usage) {
    assert_prints(2, "need --meet", "doctor --nodes 2");
    assert_prints(2, "tcp://HOST:PORT", "doctor --meet file:/tmp --nodes 2 --node-rank 0");
    assert_prints(2, "--meet needs --nodes", "doctor --meet tcp://a:1");
    assert_prints(2, "--meet needs --node-rank", "doctor --meet tcp://a:1 --nodes 2");
    assert_prints(2, "node ranks are 0 to 1", "doctor --meet tcp://a:1 --nodes 2 --node-rank 2");
    assert_prints(2, "needs a port", "doctor --meet tcp --nodes 2 --node-rank 0");
    assert_prints(2, "'doctor' is for one process, so launch cannot start it", "launch -n 2 -- doctor");
}
