#include "tests/nodes.h"
#include "tests/program.h"

#include <unistd.h>

#define TRAIN "train --model softmax --steps 3 --threads 1 --batch 12"
#define PREAMBLE                                                                                             \
    "export GRADSUM_SECRET=0123456789abcdef0123 GRADSUM_TIMEOUT=200 HOME=%s\n"                                \
    "G=%s/gradsum T='" TRAIN "' P=%d; M=\"--meet tcp://127.0.0.1:$P\"\n"                                     \
    "launch() { r=$1; shift; { timeout 400 $G launch --node-rank $r \"$@\" 2>&1; echo exit $?; } | "         \
    "sed -u \"s/^/n$r: /\"; }\n"

int gs_test_nodes_one(char **output, const char *script) {
    return gs_test_shell(output, PREAMBLE "%s\nwait", gs_test_folder(), GS_BUILD_DIR, gs_test_free_port(),
                         script);
}

void gs_test_nodes(int count, const char *const *script, char **output) {
    const char *folder = gs_test_folder();
    char path[500], *all;
    for (int i = 0; i < count; i++) {
        snprintf(path, sizeof path, "%s/script%d", folder, i);
        FILE *f = fopen(path, "w");
        assert_non_null(f);
        fprintf(f, PREAMBLE "%s\nwait\n", folder, GS_BUILD_DIR, gs_test_free_port(), script[i]);
        fclose(f);
    }
    gs_test_shell(&all, "cd %s; for s in script*; do sh $s >$s.out 2>&1 & done; wait", folder);
    free(all);
    for (int i = 0; i < count; i++) gs_test_shell(&output[i], "cat %s/script%d.out", folder, i);
}
