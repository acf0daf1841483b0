/* The address at which ranks meet, and the secret by which they recognise each other. */
#include "tests/support/files.h"

#include <sys/stat.h>
#include <unistd.h>

#include "comm/rendezvous/route.h"
#include "comm/rendezvous/secret.h"
#include "comm/rendezvous/store.h"

TEST(places_to_meet_are_read) {
    static const struct {
        const char *text, *host;
        int port;
    } right[] = {
        {"tcp://node7:29400", "node7", 29400},
        {"tcp://[fd00::1]:1", "fd00::1", 1},
        {"tcp://node7:029400", "node7", 29400},
        {"tcp", "127.0.0.1", 0},
    };
    static const char *const wrong[] = {
        "tcp://",       "tcp://node7",   "tcp://:29400", "tcp://node7:",       "tcp://node7:65536",
        "tcp://n:1x",   "tcp://n:-1",    "tcp://[::1",   "tcp://[::1]",        "http://node7:80",
        "/some/folder", "tcp://n:1/abc", "file:",        "tcp://node7:29400 ", "",
        "tcp:n:1",
    };
    gs_endpoint p;
    for (size_t i = 0; i < sizeof right / sizeof *right; i++) {
        assert_ok(gs_endpoint_read(right[i].text, &p));
        assert_null(p.folder);
        assert_string_equal(p.host, right[i].host);
        assert_int_equal(p.port, right[i].port);
    }
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_fails(GS_E_USAGE, "it must be one of these two: tcp://HOST:PORT, with",
                     gs_endpoint_read(wrong[i], &p));
    assert_fails(
        GS_E_USAGE,
        "the place to meet is 'redis://10.0.0.7:6379/ann'; it must be one of these "
        "two: tcp://HOST:PORT, with the address of node rank 0, or file:DIR, a folder that all machines see",
        gs_endpoint_read("redis://10.0.0.7:6379/ann", &p));
    assert_ok(gs_endpoint_read("file:/a/b", &p));
    assert_string_equal(p.folder, "/a/b");
    assert_true(gs_endpoint_is_folder("/a/b") && gs_endpoint_is_folder("file:a") &&
                !gs_endpoint_is_folder("tcp://a:1"));
}

TEST(interfaces_have_addresses) {
    char address[64], text[40];
    assert_ok(gs_route_address("lo", address, sizeof address));
    assert_string_equal(address, "127.0.0.1");
    assert_ok(gs_route_address("127.0.0.1", address, sizeof address));
    assert_string_equal(gs_route_interface("127.0.0.1", text, sizeof text), " (lo)");
    assert_string_equal(gs_route_interface("192.0.2.77", text, sizeof text), "");
    assert_fails(GS_E_USAGE, "no network interface or address 'eth77' that is up; it has: lo 127.0.0.1",
                 gs_route_address("eth77", address, sizeof address));
}

static void write_secret(const char *path, const char *text, mode_t mode) {
    write_text(path, text);
    assert_int_equal(chmod(path, mode), 0);
}

TEST(the_secret_is_private) {
    unsigned char one[GS_SECRET], two[GS_SECRET];
    const char *path = gs_test_format("%s/secret", gs_test_folder());
    setenv("GRADSUM_SECRET_FILE", path, 1);
    assert_fails(GS_E_FILE, "No such file", gs_run_key("", one));
    write_secret(path, "0123456789abcdef\n", 0644);
    assert_fails(GS_E_FILE, "is open to others (mode 644): chmod 600 it", gs_run_key("", one));
    chmod(path, 0600);
    assert_ok(gs_run_key("", one));
    setenv("GRADSUM_SECRET", "0123456789abcdef",
           1); /* the file's newline does not count; the variable takes precedence */
    unlink(path);
    assert_ok(gs_run_key("", two));
    assert_memory_equal(one, two, GS_SECRET);
    assert_ok(gs_run_key("job 7", two)); /* a named run has its own key */
    assert_memory_not_equal(one, two, GS_SECRET);
    setenv("GRADSUM_SECRET", "0123456789abcde", 1);
    assert_fails(GS_E_USAGE, "the run's secret (GRADSUM_SECRET) has 15 bytes; it must have 16 or more",
                 gs_run_key("", one));
    unsetenv("GRADSUM_SECRET");
    assert_int_equal(mkdir(path, 0700), 0);
    assert_fails(GS_E_FILE, "is not a regular file", gs_run_key("", one));
    rmdir(path);
    unsetenv("GRADSUM_SECRET_FILE");
}

/* If there is no secret, one is created once, readable only by its user. */
TEST(a_missing_secret_is_made) {
    unsigned char one[GS_SECRET], two[GS_SECRET];
    const char *before = getenv("XDG_CONFIG_HOME");
    struct stat s;
    setenv("XDG_CONFIG_HOME", gs_test_folder(), 1);
    assert_ok(gs_run_key("", one));
    assert_ok(gs_run_key("", two));
    const char *path = gs_test_format("%s/gradsum/secret", getenv("XDG_CONFIG_HOME"));
    assert_int_equal(stat(path, &s), 0);
    assert_int_equal(s.st_mode & 0777, 0600);
    assert_memory_equal(one, two, GS_SECRET);
    unlink(path);
    assert_ok(gs_run_key("", two));
    assert_memory_not_equal(one, two, GS_SECRET);
    if (before)
        setenv("XDG_CONFIG_HOME", before, 1);
    else
        unsetenv("XDG_CONFIG_HOME");
}
