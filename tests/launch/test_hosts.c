/* Simulates several machines on one: `launch --hosts` finds an `ssh` in PATH that runs the command here as if it ran on
 * another machine. Also tests processes that share memory within each machine. */
#include "tests/support/launched.h"
#include "tests/support/program.h"

#include <unistd.h>

/* In the script, $G is the program, $T a short training command, and $M a free address for --meet. This ssh records its
 * arguments in $HOME/words and cannot reach "nowhere". tests/net/net.sh tests separate hosts. */
static int run(char **output, const char *script) {
    return gs_test_shell(
        output,
        "HOME=%s; export HOME GRADSUM_TIMEOUT=200 PATH=$HOME:$PATH; cd $HOME; unset GRADSUM_SECRET\n"
        "G=%s/gradsum T='train --model softmax --steps 3 --threads 1 --batch 12 --exact'\n"
        "P=%d; M=\"--meet tcp://127.0.0.1:$P\"\n"
        "cat >ssh <<'end'\n"
        "#!/bin/sh\n"
        "echo \"$@\" >>$HOME/words\n"
        "while :; do case $1 in -o) shift 2 ;; -*) shift ;; *) break ;; esac; done\n"
        "[ $1 != nowhere ] || exit 255\n"
        "echo $$ >$HOME/of-$1\n"
        "GRADSUM_MACHINE=$1; export GRADSUM_MACHINE; shift; exec sh -c \"$*\"\n"
        "end\n"
        "chmod +x ssh\n%s",
        gs_test_folder(), GS_BUILD_DIR, gs_test_free_port(), script);
}

/* One process here, two on another machine, one on a third. The secret appears on no command line. */
TEST(machines_are_started_over_ssh) {
    char *output, one[65], many[65];
    assert_int_equal(run(&output, "$G $T 2>&1"), 0);
    gs_test_hash_of(output, one);
    assert_int_equal(run(&output,
                         "$G launch --hosts 127.0.0.1,berta:2,carl -n 1 $M -- $T --save 'a b' 2>&1; s=$?\n"
                         "[ -f 'a b' ] && echo saved; grep -cE '[0-9a-f]{64}' words; exit $s"),
                     0);
    gs_test_hash_of(output, many);
    assert_string_equal(one, many);
    assert_has(output, "gradsum launch: ssh berta cd ",
               " launch --nodes 3 --node-rank 2 --ranks 1,2,1 --meet tcp://127.0.0.1:",
               "workers  4 (cpu in each process; transport: two-level: ", "saved\n0\n");
}

TEST(a_machine_that_cannot_be_reached_is_named) {
    char *output;
    assert_int_equal(run(&output, "$G launch --hosts 127.0.0.1,nowhere -n 1 --timeout 1 $M -- $T 2>&1"), 1);
    assert_has(output, "node rank 1 (nowhere) failed with exit status 255: ssh could not reach it");
}

/* SIGHUP is ignored, as under nohup. SIGUSR1 causes a checkpoint after a step that is not the last. */
TEST(signals_of_a_job) {
    char *output;
    assert_int_equal(run(&output,
                         "trap '' HUP; $G launch --hosts 127.0.0.1,berta -n 1 $M -- $T --steps 12 "
                         "--jitter 0:250ms --checkpoint points --checkpoint-every 1000 >out 2>&1 & for "
                         "i in $(seq 6000); do grep -q ^step out && break; sleep 0.05; done; "
                         "kill -HUP $!; kill -USR1 $!; "
                         "wait $!; s=$?; cat out; ls points | grep -c json; exit $s"),
                     0);
    assert_has(output, "\n2\n");
}

/* Ctrl-Z stops the ranks of all machines for longer than the timeout. The launches are children of $! here, and the
 * ranks are children of the launches. */
TEST(all_machines_are_stopped_and_go_on) {
    char *output;
    assert_int_equal(
        run(&output,
            "$G launch --hosts 127.0.0.1,berta -n 1 --timeout 4 $M -- $T --steps 40 "
            "--jitter 0:50ms >out 2>&1 & p=$!\n" GS_TEST_AWAIT(
                "step ") "kill -TSTP $p\n"
                         "of() { cat /proc/$1/task/$1/children; }\n"
                         "for i in $(seq 1200); do n=; for q in $p $(for l in $(of $p); do of $l; done)\n"
                         "do n=$n$(sed 's/.*) \\(.\\).*/\\1/' /proc/$q/stat); done\n"
                         "[ $n != TTT ] || break; sleep 0.05; done; echo $n; sleep 5\n"
                         "kill -CONT $p; wait $p; s=$?; cat out; exit $s"),
        0);
    assert_has(output, "TTT\n");
}

/* A launch receives the secret on standard input, which closes when the launch that started it ends. */
TEST(a_launch_ends_with_its_starter) {
    char *output;
    assert_int_equal(
        run(&output, "{ echo 0123456789abcdef0123; " UNTIL_IT_LISTENS
                     "} | $G launch --nodes 2 --node-rank 0 $M -n 1 --timeout 60 --secret-file - -- $T 2>&1"),
        128 + 15);
    assert_has(output, "gradsum launch: stopped by signal 15");
}

/* Two ranks on each of two machines. tests/net/net.sh checks how quickly all ranks exit. */
static const char *another_leader_is_named(double timeout, void *context) {
    (void)context;
    char *output, script[300];
    snprintf(script, sizeof script,
             "export GRADSUM_FAULT=stop:rank=2,operation=20\n"
             "$G launch --hosts 127.0.0.1,berta -n 2 --timeout %g $M -- $T --steps 100000 --epochs 9999 2>&1",
             timeout);
    const int status = run(&output, script);
    const char *wanted = gs_test_format("no answer within %g s from rank 2", timeout);
    const bool right = status == 1 && strstr(output, wanted) && strstr(output, " is stopped) on host ");
    const char *wrong = right ? NULL : gs_test_wrong("exit %d, wanted '%s' in: %s", status, wanted, output);
    return wrong;
}

TEST(a_stopped_leader_is_named) {
    gs_test_patiently(5, another_leader_is_named, NULL);
}

TEST(wrong_usage) {
    assert_prints(2, "names one machine", "launch --hosts a -n 1 -- train");
    assert_prints(2, "is not HOST or HOST:PROCESSES", "launch --hosts a,-oProxyCommand=x -n 1 -- train");
    assert_prints(2, "is not HOST or HOST:PROCESSES", "launch --hosts a,b:x -n 1 -- train");
    assert_prints(2, "is not HOST or HOST:PROCESSES", "launch --hosts 'a,b;c' -n 1 -- train");
    assert_prints(2, "no number of processes on b; wanted b:N", "launch --hosts a:1,b -- train");
    assert_prints(2, "by itself", "launch --hosts a,b -n 1 --nodes 2 -- train");
    assert_prints(2, "has 3 numbers for 2 nodes",
                  "launch --nodes 2 --node-rank 0 --meet tcp://127.0.0.1:1 --ranks 1,2,3 -- train");
    assert_prints(2, "how many processes each node has: leave out -n",
                  "launch -n 4 --nodes 2 --node-rank 0 --meet tcp://127.0.0.1:1 --ranks 2,2 -- train");
    assert_prints(2, "is not a list of numbers", "launch --ranks 0 -- train");
    assert_prints(2, "there is no secret in standard input",
                  "launch --meet tcp -n 1 --secret-file - -- train </dev/null");
    assert_prints(2, "--program is for", "launch --program x -n 1 -- train");
}
