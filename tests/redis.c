#include "tests/redis.h"
#include "tests/launched.h"
#include "tests/program.h"
#include "comm/process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static pid_t server; /* 0: there is none */

static bool answers(int port) {
    char *output;
    gs_test_shell(&output, "redis-cli -p %d ping", port);
    const bool pong = strstr(output, "PONG") != NULL;
    free(output);
    return pong;
}

int gs_test_redis_start(void) {
    char number[16];
    const int port = gs_test_free_port();
    const char *folder = gs_test_folder();
    snprintf(number, sizeof number, "%d", port);
    if (gs_test_shell(NULL, "command -v redis-server && command -v redis-cli") != 0) return 0;
    server = fork();
    if (server == 0) {
        const int nothing = open("/dev/null", O_WRONLY);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(nothing, STDOUT_FILENO);
        execlp("redis-server", "redis-server", "--port", number, "--bind", "127.0.0.1", "--save", "", "--dir",
               folder, (char *)NULL);
        _exit(127);
    }
    for (int i = 0; i < 15000 && !answers(port); i++) usleep(20000);
    return port;
}

void gs_test_redis_pause(double seconds) {
    kill(server, SIGSTOP);
    while (!gs_process_is_stopped(server)) usleep(1000);
    const pid_t child = fork(); /* whose child wakes the server: nobody has to wait for that one */
    if (child != 0) {
        waitpid(child, NULL, 0);
        return;
    }
    if (fork() == 0) {
        usleep((useconds_t)(seconds * 1e6));
        kill(server, SIGCONT);
    }
    _exit(0);
}

void gs_test_redis_end(void) {
    if (server <= 0) return;
    kill(server, SIGKILL);
    waitpid(server, NULL, 0);
    server = 0;
}
