/* Simulates several machines on one, with a launch for each. The launches meet over TCP or in a folder that the user
 * names. Also tests processes started by torchrun, Slurm or the user, recognised by their environment. */
#include "tests/support/program.h"
#include "tests/support/launched.h"

#include <unistd.h>

/* In a script $G is the program, $T a short training command, and $M "--meet tcp://..." with a free port. `launch R
 * ...` launches node rank R; its output lines start with "nR: ". All share a secret. */
#define TRAIN "train --model softmax --steps 3 --threads 1 --batch 12"
#define PREAMBLE                                                                                             \
    "export GRADSUM_SECRET=0123456789abcdef0123 GRADSUM_TIMEOUT=200 HOME=%s\n"                               \
    "G=%s/gradsum T='" TRAIN "' P=%d; M=\"--meet tcp://127.0.0.1:$P\"\n"                                     \
    "launch() { r=$1; shift; { timeout 400 $G launch --node-rank $r \"$@\" 2>&1; echo exit $?; } | "         \
    "sed -u \"s/^/n$r: /\"; }\n"

static int run_script(char **output, const char *script) {
    return gs_test_shell(output, PREAMBLE "%s\nwait", gs_test_folder(), GS_BUILD_DIR, gs_test_free_port(),
                         script);
}

/* Runs several scripts at once, because they mostly wait. */
static void run_scripts(int count, const char *const *script, char **output) {
    const char *folder = gs_test_folder();
    char path[500], *all;
    for (int i = 0; i < count; i++) {
        snprintf(path, sizeof path, "%s/script%d", folder, i);
        FILE *f = gs_test_open(path, "w");
        fprintf(f, PREAMBLE "%s\nwait\n", folder, GS_BUILD_DIR, gs_test_free_port(), script[i]);
        fclose(f);
    }
    gs_test_shell(&all, "cd %s; for s in script*; do sh $s >$s.out 2>&1 & done; wait", folder);
    for (int i = 0; i < count; i++) gs_test_shell(&output[i], "cat %s/script%d.out", folder, i);
}

/* This rank ends without a message while the others wait for it. */
#define NEVER_COMES(rank, how)                                                                               \
    "unset GRADSUM_CHECK; export GRADSUM_FAULT='delay:rank=" #rank ",operation=0,seconds=2;" how             \
    ":rank=" #rank ",operation=0'; launch 1 --nodes 2 $M -n 2 -- $T & launch 0 --nodes 2 $M -n 2 -- $T"

static void assert_says(const char *script, const char *const *wanted) {
    char *output;
    run_script(&output, script);
    gs_test_has(output, wanted, __FILE__, __LINE__);
}

TEST(nodes_train_as_one_machine_does) {
    static const char *const scripts[] = {
        "launch 0 -n 4 -- $T",
        "launch 0 -n 4 --meet tcp -- $T",
        "launch 1 --nodes 2 $M -n 2 -- $T & launch 0 --nodes 2 $M -n 2 -- $T",
        "F=--meet=file:$HOME/meet; launch 1 --nodes 2 $F -n 2 -- $T & launch 0 --nodes 2 $F -n 2 -- $T",
        ("export GRADSUM_RENDEZVOUS=tcp://127.0.0.1:$P GRADSUM_WORLD_SIZE=4; "
         "for r in 3 2 1; do GRADSUM_RANK=$r $G $T & done; GRADSUM_RANK=0 $G $T"),
    };
    char first[65] = "", hash[65] = "", *output;
    for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++) {
        run_script(&output, scripts[i]);
        gs_test_hash_of(output, i == 0 ? first : hash);
        if (i > 0 && strcmp(first, hash) != 0) fail_msg("%s: the weights differ: %s", scripts[i], output);
        if (strstr(output, "--nodes 2") == NULL && strstr(output, "exit 1")) fail_msg("%s", output);
    }
}

TEST(where_they_listen_is_printed) {
    static const char *const wanted[] = {
        "n0: gradsum launch: the ranks meet at 127.0.0.1 port ",
        "n0: gradsum: the processes on the node of rank 0 listen at 127.0.0.1 (lo)",
        "n1: gradsum: the processes on the node of rank 1 listen at 127.0.0.1 (lo)",
        "n0: exit 0",
        "n1: exit 0",
        NULL};
    assert_says("launch 1 --nodes 2 $M --interface lo -n 1 -- $T & launch 0 --nodes 2 $M -n 1 -- $T", wanted);
}

/* Every rank prints why. */
TEST(nodes_that_do_not_fit_are_named) {
    static const struct {
        const char *script, *wanted[5];
    } cases[] = {
        {"launch 1 --nodes 3 $M -n 1 -- $T & launch 0 --nodes 3 $M -n 1 -- $T & "
         "launch 1 --nodes 3 $M -n 1 -- $T | sed s/n1/second/",
         {"n0: gradsum train: rank 1 has arrived twice: process ",
          "n1: gradsum train: rank 1 has arrived twice: ",
          "second: gradsum train: rank 1 has arrived twice: process "}},
        {"launch 0 --nodes 2 $M -n 1 --timeout 6 -- $T & " UNTIL_IT_LISTENS
         "launch 0 --nodes 2 $M -n 1 -- $T | sed s/n0/second/",
         {"n0: gradsum train: rank 0 waited 6 s for rank 1 of 2", "second: gradsum launch: port ",
          "or another node that was started as node rank 0"}},
        {"launch 0 --nodes 2 $M -n 1 -- $T & launch 1 --nodes 2 $M -n 3 -- $T",
         {"n0: gradsum train: rank ", "n1: gradsum train: rank ",
          "is one of 6 processes, but rank 0 is one of 2: all nodes need the same --nodes and -n"}},
        {"launch 0 --nodes 2 $M -n 1 --timeout 12 -- $T & GRADSUM_SECRET=another-secret-of-some-length "
         "launch 1 --nodes 2 $M -n 1 -- $T",
         {"n0: gradsum train: rank 0 waited 12 s for rank 1 of 2, which never arrived (at tcp://127.0.0.1:",
          "turned away there, of gradsum with another secret: it must be the same on all machines",
          "n1: gradsum train: rank 1: what answers at 127.0.0.1 port "}},
        {"launch 0 --nodes 2 $M -n 1 -- $T & " UNTIL_IT_LISTENS
         "launch 1 --nodes 2 $M -n 1 -- train --data /no/such",
         {"n0: gradsum train: rank 0: rank 1 failed before it joined: ", "n1: gradsum train: "}},
        /* a rank is killed, or exits without a message, before it has reached the store */
        {NEVER_COMES(3, "kill"),
         {": rank 3 failed before it joined: it was killed by signal 9 (Killed), on node rank 1 (host ",
          "n0: gradsum launch: rank ", "n1: gradsum launch: rank 3 was killed by signal 9 (Killed)",
          "n0: exit 1"}},
        {NEVER_COMES(0, "usage"),
         {": rank 0 failed before it joined: it failed with exit status 2, on node rank 0 (host ",
          "n0: gradsum launch: rank ", "n1: gradsum launch: rank ", "n1: exit 1"}},
        {"launch 0 --nodes 2 --meet redis://127.0.0.1:$P/x -n 1 -- $T",
         {"n0: gradsum launch: --meet: the place to meet is 'redis://127.0.0.1:",
          "it must be one of these two: tcp://HOST:PORT, ", "n0: exit 2"}},
        {"launch 1 --nodes 2 $M -n 1 --timeout 0.5 -- $T",
         {"rank 1: nobody could be reached at 127.0.0.1 port ",
          "(Connection refused), where the ranks meet: start the launch of node rank 0"}},
    };
    enum { CASES = sizeof cases / sizeof *cases };
    const char *script[CASES];
    char *output[CASES];
    for (int i = 0; i < CASES; i++) script[i] = cases[i].script;
    run_scripts(CASES, script, output);
    for (int i = 0; i < CASES; i++) gs_test_has(output[i], cases[i].wanted, __FILE__, __LINE__);
}

/* Rank 3 is killed before it joins, and rank 1 is ended before it reaches the folder, so not every rank has read there
 * that rank 3 failed. Nevertheless another run can meet in the folder at once. */
TEST(a_failed_run_leaves_its_folder_to_the_next) {
    static const char *const wanted[] = {
        "rank 3 failed before it joined: it was killed by signal 9 (Killed), on node rank 1 (host ",
        "n0: exit 1",
        "n1: exit 1",
        "n0: exit 0",
        "n1: exit 0",
        NULL};
    assert_says("F=--meet=file:$HOME/meet; "
                "both() { launch 1 --nodes 2 $F -n 2 -- $T & launch 0 --nodes 2 $F -n 2 -- $T; wait; }; "
                "GRADSUM_FAULT='kill:rank=3,operation=0;delay:rank=1,operation=0,seconds=100'; "
                "export GRADSUM_FAULT; both; ls $HOME/meet; unset GRADSUM_FAULT; both",
                wanted);
}

/* Node 1 is stopped while it waits for node 2. Then both train, and node 1 is stopped again. */
TEST(a_node_that_is_stopped_is_named) {
    static const char *const wanted[] = {
        "n0: gradsum launch: rank 1: stopped by a signal while it waited for the other ranks",
        "n0: gradsum launch: stopped by a signal that another rank received", NULL};
#define UNTIL(file, text)                                                                                    \
    "for i in $(seq 6000); do grep -q '" text "' $HOME/" file " && break; sleep 0.05; done; "
    assert_says("node1() { exec $G launch --node-rank 1 $M -n 1 \"$@\" >$HOME/n1 2>&1; }; "
                "launch 0 --nodes 3 $M -n 1 -- $T & node1 --nodes 3 -- $T & " UNTIL(
                    "n1", "rank 1 listen") "kill -TERM $!; wait; rm $HOME/n1; "
                                           "launch 0 --nodes 2 $M -n 1 -- $T --steps 10000 --jitter 0:25ms "
                                           ">$HOME/n0 & node1 --nodes 2 -- $T "
                                           "--steps 10000 --jitter 0:25ms & " UNTIL(
                                               "n0", "step ") "kill -TERM $!; wait; cat $HOME/n0",
                wanted);
}

TEST(wrong_usage) {
    assert_prints(2, "--nodes 2 needs --meet", "launch --nodes 2 --node-rank 0 -n 1 -- train");
    assert_prints(2, "--nodes 2 needs --node-rank", "launch --nodes 2 --meet tcp://h:1 -n 1 -- train");
    assert_prints(2, "--node-rank 2 of 2 nodes: node ranks are 0 to 1",
                  "launch --nodes 2 --node-rank 2 --meet tcp://h:1 -n 1 -- train");
    static const char *const alone[] = {"--restarts 1", "--elastic 1", "--elastic 1:4"};
    for (size_t i = 0; i < sizeof alone / sizeof *alone; i++) {
        assert_prints(2, "or Slurm's --requeue starts train again",
                      "launch --nodes 2 --node-rank 0 --meet tcp://h:1 -n 2 %s -- train", alone[i]);
        assert_prints(2, "is for the processes of one machine; on several, torchrun --max-restarts N",
                      "launch --hosts a,b -n 2 %s -- train", alone[i]);
    }
    assert_prints(2, "--meet: the place to meet is 'tcp://h'", "launch --meet tcp://h -n 1 -- train");
    assert_prints(2, "--interface: this machine has no network interface",
                  "launch --interface eth77 -n 1 -- train");
    assert_prints(1, "can be reached from other machines, but there is one node",
                  "launch --meet tcp://192.0.2.2:29400 -n 1 -- train");
    assert_prints(1, "needs a port that all 2 nodes know",
                  "launch --nodes 2 --node-rank 0 --meet tcp -n 1 -- train");
}

/* Strangers call while two nodes train for some seconds: training ends normally, and the strangers are counted. */
TEST(a_training_goes_on_among_strangers) {
    char *output;
    int strangers = 0;
    run_script(&output, "launch 1 --nodes 2 $M -n 1 -- $T --steps 100 --jitter 0:25ms & "
                        "launch 0 --nodes 2 $M -n 1 -- $T --steps 100 --jitter 0:25ms & " UNTIL_IT_LISTENS
                        "bash -c 'for i in $(seq 40); do (exec 3<>/dev/tcp/127.0.0.1/'$P'; printf "
                        "hello%0999d $i >&3) 2>/dev/null; done'");
    const char *count = strstr(output, "n0: gradsum launch: ");
    while (count && !strstr(count, " turned away for not proving knowledge of the run's secret"))
        count = NULL;
    if (!count || !strstr(output, "n0: exit 0") || !strstr(output, "n1: exit 0")) fail_msg("%s", output);
    count = strstr(output, " connection");
    while (count > output && count[-1] >= '0' && count[-1] <= '9') count--;
    strangers = atoi(count);
    if (strangers < 1 || strangers > 40) fail_msg("%d strangers: %s", strangers, output);
}

/* ---- other programs that start processes ---- */

TEST(lists_of_slurm_begin_with_a_host) {
    static const char *const cases[][2] = {{"node7", "node7"},
                                           {"node[07-09,12],gpu1", "node07"},
                                           {"a,b", "a"},
                                           {"n[3]", "n3"},
                                           {"rack1-n[1,4]", "rack1-n1"}};
    gs_rendezvous r;
    char wanted[40], longest[300];
    memset(longest, 'a', sizeof longest);
    longest[sizeof longest - 1] = '\0';
    setenv("SLURM_PROCID", "1", 1);
    setenv("SLURM_STEP_NUM_TASKS", "2", 1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        setenv("SLURM_STEP_NODELIST", cases[i][0], 1);
        assert_ok(gs_rendezvous_from_environment(&r));
        snprintf(wanted, sizeof wanted, "tcp://%s:20000", cases[i][1]);
        assert_string_equal(r.endpoint, wanted);
    }
    setenv("SLURM_STEP_NODELIST", "", 1);
    assert_fails(GS_E_USAGE, "SLURM_STEP_NODELIST is ''", gs_rendezvous_from_environment(&r));
    setenv("SLURM_STEP_NODELIST", longest, 1);
    assert_fails(GS_E_USAGE, "SLURM_STEP_NODELIST is 'aaa", gs_rendezvous_from_environment(&r));
    unsetenv("SLURM_PROCID");
    unsetenv("SLURM_STEP_NUM_TASKS");
    unsetenv("SLURM_STEP_NODELIST");
}

#define WRONG(set, says)                                                                                     \
    { set, 0, 0, 0, 0, NULL, says, NULL }
TEST(environments_of_others_are_understood) {
    static const struct {
        const char *set; /* "NAME=VALUE NAME=VALUE" */
        int rank, size, local, nodes;
        const char *engine, *meet,
            *run; /* run NULL: the values are contradictory, and the message contains `meet` */
    } cases[] = {
        {"RANK=3 WORLD_SIZE=4 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2 GROUP_WORLD_SIZE=2 MASTER_ADDR=node7 "
         "MASTER_PORT=29500 TORCHELASTIC_RUN_ID=abc",
         3, 4, 1, 2, "torchrun", "tcp://node7:29501", "torchrun abc 29500, start 0"},
        {"RANK=0 WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 MASTER_ADDR=node7 MASTER_PORT=65535", 0, 2, -1, 1,
         "torchrun", "tcp://127.0.0.1:65519", "torchrun  65535, start 0"},
        {"RANK=1 WORLD_SIZE=2 MASTER_ADDR=fd00::1 MASTER_PORT=1", 1, 2, -1, 0, "torchrun",
         "tcp://[fd00::1]:2", "torchrun  1, start 0"},
        WRONG("RANK=2 WORLD_SIZE=2 MASTER_ADDR=a MASTER_PORT=1", "RANK is '2'"),
        WRONG("RANK=0 WORLD_SIZE=2 MASTER_ADDR=a MASTER_PORT=x", "MASTER_PORT is 'x'"),
        /* an incomplete set of variables: none of them says where to meet */
        WRONG("RANK=1 WORLD_SIZE=2",
              "RANK is 1, as torchrun sets it, but MASTER_ADDR is not set: set "
              "GRADSUM_RENDEZVOUS=tcp://HOST:PORT for all, HOST being rank 0's, or use"),
        WRONG("RANK=0 WORLD_SIZE=2 MASTER_ADDR=a", "but MASTER_PORT is not set"),
        WRONG("PMI_RANK=0 PMI_SIZE=4 PMI_FD=6 MPI_LOCALRANKID=0",
              "PMI_RANK is 0, as MPICH sets it, but GRADSUM_RENDEZVOUS is not set"),
        WRONG("MV2_COMM_WORLD_RANK=1 MV2_COMM_WORLD_SIZE=2", "MV2_COMM_WORLD_RANK is 1, as MVAPICH sets it"),
        WRONG("FLUX_TASK_RANK=1 FLUX_JOB_SIZE=2", "FLUX_TASK_RANK is 1, as Flux sets it"),
        WRONG("PALS_RANKID=0", "PALS_RANKID is 0, as PALS sets it, but GRADSUM_WORLD_SIZE is not set"),
        WRONG("PMIX_RANK=1", "HOST being rank 0's, and GRADSUM_RANK and GRADSUM_WORLD_SIZE, or use"),
        WRONG("OMPI_COMM_WORLD_RANK=0", "to train alone, unset OMPI_COMM_WORLD_RANK"),
        WRONG("SLURM_PROCID=1 SLURM_NTASKS=2", "but SLURM_STEP_NODELIST is not set"),
        WRONG("SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=2", "SLURM_STEP_NODELIST is not set"),
        WRONG("SLURM_PROCID=1", "SLURM_PROCID is 1, as Slurm sets it"),
        WRONG("RANK=1", "RANK is 1, as torchrun sets it, but WORLD_SIZE is not set"),
        WRONG("WORLD_SIZE=2 SLURM_NTASKS=4 SLURM_JOB_ID=12 GRADSUM_RENDEZVOUS=tcp://b:1",
              "WORLD_SIZE is 2, as torchrun sets it, but RANK is not set"),
        {"RANK=2 PMI_RANK=3 PMI_SIZE=4 GRADSUM_RENDEZVOUS=tcp://b:1", 3, 4, -1, 0, "MPICH", "tcp://b:1", ""},
        WRONG("PMI_SIZE=2", "PMI_SIZE is 2, as MPICH sets it, but PMI_RANK is not set"),
        WRONG("RANK= WORLD_SIZE=2", "RANK is ''; it must be a whole number from 0 to 1"),
        WRONG("PMI_RANK=5 PMI_SIZE=2", "PMI_RANK is '5'; it must be a whole number from 0 to 1"),
        WRONG("SLURM_PROCID=x SLURM_STEP_NUM_TASKS=2", "SLURM_PROCID is 'x'; it must be"),
        WRONG("RANK=0 WORLD_SIZE=2.0", "WORLD_SIZE is '2.0'; it must be"),
        /* MPICH's processes in a Slurm job that counts nodes; and Slurm's own PMI */
        WRONG("PMI_RANK=3 PMI_SIZE=4 SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=2 SLURM_STEP_NODELIST=n1",
              "PMI_RANK is 3"),
        {"PMI_RANK=1 PMI_SIZE=2 SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=2 SLURM_STEP_NODELIST=n1 PMIX_RANK=1", 1,
         2, -1, 0, "Slurm", "tcp://n1:20000", "Slurm 0.0"},
        /* the user says where to meet */
        {"PMI_RANK=3 PMI_SIZE=4 MPI_LOCALRANKID=1 GRADSUM_RENDEZVOUS=tcp://b:1", 3, 4, 1, 0, "MPICH",
         "tcp://b:1", ""},
        {"RANK=0 WORLD_SIZE=2 GRADSUM_RENDEZVOUS=tcp://b:1", 0, 2, -1, 0, "torchrun", "tcp://b:1", ""},
        /* a single process: a size of 1; variables that other programs use too; a shell in an allocation */
        {"PMI_RANK=0 PMI_SIZE=1", 0, 1, -1, 0, NULL, "", ""},
        {"WORLD_SIZE=1", 0, 1, -1, 0, NULL, "", ""},
        {"SLURM_NTASKS=4", 0, 1, -1, 0, NULL, "", ""},
        {"RANK=captain", 0, 1, -1, 0, NULL, "", ""},
        {"SLURM_PROCID=0 SLURM_JOB_ID=12", 0, 1, -1, 0, NULL, "", ""},
        {"SLURM_PROCID=0 SLURM_NTASKS=4 SLURM_STEP_NUM_TASKS=1 SLURM_STEP_NODELIST=n1 SLURM_STEP_NUM_NODES=1",
         0, 1, -1, 1, "Slurm", "tcp://127.0.0.1:20000", "Slurm 0.0"},
        {"SLURM_PROCID=2 SLURM_NTASKS=9 SLURM_STEP_NUM_TASKS=4 SLURM_LOCALID=0 SLURM_STEP_NODELIST=n[07-08] "
         "SLURM_STEP_NUM_NODES=2 SLURM_JOB_ID=12 SLURM_STEP_ID=3",
         2, 4, 0, 2, "Slurm", "tcp://n07:21212", "Slurm 12.3"},
        {"SLURM_PROCID=0 SLURM_NTASKS=2 SLURM_STEP_NODELIST=n1 SLURM_STEP_NUM_NODES=1 SLURM_JOB_ID=12 "
         "SLURM_STEP_ID=0",
         0, 2, -1, 1, "Slurm", "tcp://127.0.0.1:21164", "Slurm 12.0"},
        {"SLURM_PROCID=0 SLURM_NTASKS=2 SLURM_JOB_ID=12", 0, 1, -1, 0, NULL, "", ""}, /* a batch script */
        WRONG("SLURM_PROCID=0 SLURM_NTASKS=x SLURM_STEP_NODELIST=n1", "SLURM_NTASKS is 'x'"),
        {"RANK=0 WORLD_SIZE=2 MASTER_ADDR=a MASTER_PORT=1 GRADSUM_RENDEZVOUS=tcp://b:6379", 0, 2, -1, 0,
         "torchrun", "tcp://b:6379", "torchrun  1, start 0"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[400], *rest, *word, *names[10];
        int count = 0;
        snprintf(text, sizeof text, "%s", cases[i].set);
        for (word = strtok_r(text, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
            char *equal = strchr(word, '=');
            *equal = '\0';
            setenv(word, equal + 1, 1);
            names[count++] = word;
        }
        gs_rendezvous r;
        gs_status status = gs_rendezvous_from_environment(&r);
        while (count > 0) unsetenv(names[--count]);
        if (!cases[i].run) assert_fails(GS_E_USAGE, cases[i].meet, status);
        if (!cases[i].run) continue;
        if (status != GS_OK) fail_msg("%s: %s", cases[i].set, gs_message());
        assert_int_equal(r.rank, cases[i].rank);
        assert_int_equal(r.size, cases[i].size);
        assert_int_equal(r.local_rank, cases[i].local);
        assert_int_equal(r.nodes, cases[i].nodes);
        assert_string_equal(r.endpoint, cases[i].meet);
        assert_string_equal(r.run, cases[i].run);
        assert_string_equal(r.engine ? r.engine : "", cases[i].engine ? cases[i].engine : "");
        assert_int_equal(r.holds_store, r.rank == 0 && strncmp(r.endpoint, "tcp", 3) == 0);
    }
}

/* Started as by MPICH's mpiexec: with an address the ranks train together; without one, all end and write nothing. */
TEST(ranks_of_mpich_train_together_or_not_at_all) {
    static const char all[] =
        "export PMI_SIZE=2; cd $HOME; for r in 1 0; do PMI_RANK=$r $G $T --save w$r; echo $?; "
        "done & wait; RANK=1 WORLD_SIZE=2 MASTER_ADDR=a MASTER_PORT=1 $G predict --load w0 -o w.npy";
    static const char together[] = "export PMI_SIZE=2 GRADSUM_RENDEZVOUS=tcp://127.0.0.1:$P; "
                                   "for r in 1 0; do PMI_RANK=$r $G $T & done";
    char first[65] = "", hash[65] = "", *output;
    run_script(&output, all);
    const char *two = strstr(output, "PMI_RANK is 1, as MPICH sets it");
    if (!two || !strstr(two, "\n2\n") || strstr(output, "weights") || !strstr(output, "PMI_RANK is 0") ||
        !strstr(output, "predict: this is rank 1 of 2, and predict is for one process"))
        fail_msg("%s", output);
    run_script(&output, "launch 0 -n 2 -- $T");
    gs_test_hash_of(output, first);
    run_script(&output, together);
    gs_test_hash_of(output, hash);
    if (strcmp(first, hash) != 0) fail_msg("the weights differ: %s", output);
}

/* A waiting rank warns that only this machine can reach the address; then the other rank joins, from this machine. */
TEST(a_place_that_is_only_this_machine_is_named) {
#define UNTIL_IT_SAYS                                                                                        \
    "for i in $(seq 2400); do grep -q 'is only this machine' $HOME/said && break; sleep 0.05; done; "
    static const char *const here[] = {"n0: gradsum: 127.0.0.1, where the ranks meet, is only this machine: "
                                       "for ranks on others, meet at tcp://",
                                       "n0: exit 0", "n1: exit 0", NULL};
    static const char *const there[] = {
        "gradsum: 127.0.0.1 (localhost), where the ranks meet, is only this machine: if rank 0 is on another",
        "weights", NULL};
    assert_says("launch 0 --nodes 2 $M -n 1 --timeout 120 -- $T >$HOME/said & " UNTIL_IT_SAYS
                "launch 1 --nodes 2 $M -n 1 -- $T; wait; cat $HOME/said",
                here);
    assert_says("export WORLD_SIZE=2 MASTER_ADDR=localhost MASTER_PORT=$P GRADSUM_TIMEOUT=120; "
                "RANK=1 $G $T >$HOME/said 2>&1 & " UNTIL_IT_SAYS "RANK=0 $G $T; wait; cat $HOME/said",
                there);
}

/* Two nodes with two processes each. */
TEST(a_faked_torchrun_and_slurm_train) {
    static const char *const scripts[] = {
        "launch 0 -n 4 -- $T",
        "export WORLD_SIZE=4 LOCAL_WORLD_SIZE=2 GROUP_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$P; "
        "for r in 3 2 1 0; do RANK=$r LOCAL_RANK=$((r % 2)) $G $T & done",
        "export SLURM_NTASKS=4 SLURM_STEP_NUM_NODES=2 SLURM_STEP_NODELIST=localhost,other SLURM_JOB_ID=$P "
        "SLURM_STEP_ID=0; for r in 3 2 1 0; do SLURM_PROCID=$r SLURM_LOCALID=$((r % 2)) $G $T & done",
    };
    char first[65] = "", hash[65] = "", *output;
    for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++) {
        run_script(&output, scripts[i]);
        gs_test_hash_of(output, i == 0 ? first : hash);
        if (i > 0 && strcmp(first, hash) != 0) fail_msg("%s: the weights differ: %s", scripts[i], output);
    }
}

/* One rank has found a checkpoint and holds it. Before the other rank looks, another run, which keeps only one
 * checkpoint, writes a later one. Both ranks continue from the checkpoint that rank 0 found. */
TEST(all_ranks_take_the_same_checkpoint) {
#define LONG "$G train --model softmax --threads 1 --batch 600 --epochs 9 --exact "
    static const char begin[] =
        "C=$HOME/c$P; " LONG
        "--steps 5 --checkpoint $C >/dev/null; rank() { GRADSUM_RENDEZVOUS=tcp://127.0.0.1:$P "
        "GRADSUM_WORLD_SIZE=2 GRADSUM_RANK=$1 $G train --resume $C --steps 20 2>&1; echo exit $?; }; rank "
        "%d >$HOME/out$P & for i in $(seq 2400); do flock -n -x $C/step-000000005.safetensors true || break; "
        "sleep 0.05; done; $G train --resume $C --checkpoint $C --keep 1 --steps 10 2>&1; ls $C; rank %d; "
        "wait; cat $HOME/out$P";
    char *output[3], script[2][900], whole[65], hash[65];
    const char *scripts[2] = {script[0], script[1]};
    run_script(&output[2], LONG "--steps 20");
    gs_test_hash_of(output[2], whole);
    for (int i = 0; i < 2; i++) snprintf(script[i], sizeof script[i], begin, i, 1 - i);
    run_scripts(2, scripts, output);
    for (int i = 0; i < 2; i++) {
        const char *end = strstr(output[i], "step-000000010.json"),
                   *last = end ? strstr(end, "weights ") : NULL;
        if (!last) {
            fail_msg("%d: %s", i, output[i]);
            return;
        }
        assert_non_null(strstr(output[i], "step-000000005.json"));
        assert_null(strstr(output[i], "exit 1"));
        assert_int_equal(strstr(output[i], "step 10, in ") != NULL,
                         i == 1); /* then rank 0 has found the newer one */
        gs_test_hash_of(last, hash);
        if (strcmp(hash, whole) != 0) fail_msg("%d: the weights differ: %s", i, output[i]);
    }
}
