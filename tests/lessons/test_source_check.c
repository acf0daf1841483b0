/* What a hand-in may contain: words, included files, symbols, and kernel code. Anything that gets past these checks is
 * a bug. tests/lessons/labs.sh runs whole hand-ins that try to cheat.
 */
#include "sync/scheme.h"
#include "tests/support/test.h"

#include "lessons/source_check.h"

static void assert_words(const char *says, const char *own) {
    const char *text = gs_test_format(
        "# 0 \"lab.c\"\n# 0 \"<built-in>\"\n# 0 \"<command-line>\"\n# 1 \"/usr/include/stdc-predef.h\" "
        "1 3 4\n"
        "int asm_in_a_header __attribute__((used));\n# 0 \"<command-line>\" 2\n# 1 \"lab.c\"\n"
        "# 1 \"src/x.h\" 1\nextern int x __attribute__((unused));\n# 2 \"lab.c\" 2\n%s\n",
        own);
    const char *got = lab_check_words(text, "lab.c");
    bool right = got && says ? strstr(got, says) != NULL : got == says;
    if (!right) fail_msg("%s: got %s, wanted %s", own, got ? got : "nothing", says ? says : "nothing");
}

TEST(words_of_a_hand_in) {
    assert_words(NULL, "int main(void) { return x; }");
    assert_words(NULL, "const char *a = \"asm __attribute__ \\\" asm\"; int c = '\"'; int asmara, _asm_;");
    assert_words("line 2: it uses __attribute__", "__attribute__((constructor)) void f(void) {}");
    assert_words("line 3: it uses asm", "int y;\nvoid f(void) { asm(\"nop\"); }");
    assert_words("__asm__", "char q = '\\''; void f(void) { __asm__ volatile(\"syscall\"); }");
    assert_words("an attribute", "[[gnu::constructor]] void f(void) {}");
    assert_words("#pragma", "#pragma GCC optimize 3");
    assert_words("__asan_", "const char *__asan_default_options(void) { return 0; }");
    assert_words("a #line says", "# 7 \"/usr/include/stdio.h\"\nvoid f(void) { asm(\"nop\"); }");
    assert_words("a #line says", "# 7 \"<x>\"\nvoid f(void) { asm(\"nop\"); }");
    assert_words("a #line says", "# 7 \"<built-in>\"\nvoid f(void) { asm(\"nop\"); }");
    assert_words(NULL, "# 40 \"lab.c\"\nint z;");
    assert_words(NULL, "#define N 3\nint z[N];");
    assert_words("__attribute__", "#define FIRST __attribute__((constructor))");
    assert_words("behind a #define", "#define lab_blank x\n# 1 \"src/y.h\" 1\nint y;\n# 3 \"lab.c\" 2");
    assert_words("line 2: it uses a trigraph", "const char *z = \"?\?/\"\", \"; asm(\"nop\");");
    assert_words(NULL, "const char *z = \"??\", *y = \"?? /\";");
    assert_words("line 2: it uses a backslash at the end of a line", "as\\ \nm(\"nop\");");
    assert_words("line 41: it uses asm", "# 40 \"lab.c\"\nint z;\nasm(\"nop\");");
}

TEST(files_that_a_hand_in_includes) {
    assert_null(lab_check_includes(
        "x/lab.o: x/lab.c lessons/lab.h src/sync/sync.h \\\n /usr/include/math.h "
        "/usr/lib/gcc/x86_64/12/../../../../include/a.h /usr/bin/../lib/gcc/x86_64/12/include/b.h\n",
        "x/lab.c"));
    static const char *const others[] = {"src/sync/ring.c",
                                         "../bob/lab.c",
                                         "/home/bob/lab.c",
                                         "lessons/../../bob/lab.h",
                                         "/usr/include/../../etc/passwd",
                                         "/usr/lib/gcc/../../../proc/self/environ",
                                         "/usr/lib/gcc/../../../work/lab.c",
                                         "/usr/lib/llvm/../gcc/../../../../x.h",
                                         "/usr/lib/..",
                                         "/proc/self/environ",
                                         "other/lab.c",
                                         "/work/other.c",
                                         "lab.h"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        const char *list = gs_test_format("x/lab.o: x/lab.c \\\n lessons/lab.h %s\n", others[i]);
        const char *got = lab_check_includes(list, "x/lab.c");
        if (!got || !strstr(got, "it includes") || !strstr(got, others[i]))
            fail_msg("%s: %s", others[i], got ? got : "nothing");
    }
    assert_string_equal(lab_check_includes("x: x/lab.c lessons/07-all-reduce/solution.c", "x/lab.c"),
                        "it includes a solution");
}

TEST(symbols_of_a_hand_in) {
    static const char *const may[] = {"gs_sync_send", NULL};
    const char *wanted = "ring U  \nlab_remote U  \ncall_ring t 0 10\n";
    const char *fine =
        "ring T 0 10\nhelp t 10 20\nmalloc U  \nsqrtf U  \ngs_sync_send U  \n__asan_load4 U  \n"
        "lab_blank U  \nmine T 30 1\n";
    assert_null(lab_check_symbols(fine, may, wanted));
    assert_string_equal(lab_check_symbols("ring T 0 10\ngs_fail T 0 10\n", may, wanted),
                        "it defines gs_fail, which is the library's");
    assert_string_equal(lab_check_symbols("lab_wire_here T 0 10\n", may, wanted),
                        "it defines lab_wire_here, which is the library's");
    assert_string_equal(lab_check_symbols("fork U  \n", may, wanted),
                        "it uses fork, which it does not define and this lab does not need");
    assert_string_equal(lab_check_symbols("dlsym@GLIBC_2.34 U  \n", may, wanted),
                        "it uses dlsym, which it does not define and this lab does not need");
    assert_non_null(strstr(lab_check_symbols("gs_sync_ring U  \n", may, wanted), "it uses gs_sync_ring"));
    assert_non_null(
        strstr(lab_check_symbols("lab_remote U  \n", may, wanted ? "ring U  \n" : ""), "lab_remote"));
    assert_non_null(lab_check_symbols("system w  \n", may, wanted));
}

static void assert_kernels(const char *says, const char *text) {
    const char *got = lab_check_kernels(text);
    bool right = got && says ? strstr(got, says) != NULL : got == says;
    if (!right) fail_msg("%s: got %s, wanted %s", text, got ? got : "nothing", says ? says : "nothing");
}

TEST(words_of_kernels) {
    assert_kernels(NULL, "#define TILE 16\nkernel void k(global float *c) { c[get_global_id(0)] %= TILE; }");
    assert_kernels("line 2: it uses include", "\n#include \"/etc/passwd\"");
    assert_kernels("include", "# \t include <x>");
    assert_kernels("include", "#\\\ninclude <x>");
    assert_kernels("include", "#inc\\ \r\nlude <x>");
    assert_kernels("include_next", "#include_next <x>");
    assert_kernels("a comment behind #", "# /* */ include <x>");
    assert_kernels("asm", "void f() { asm(\"nop\"); }");
    assert_kernels("__asm__", "void f() { __as\\\nm__(\"nop\"); }");
    assert_kernels("printf", "void f() { printf(\"read 3\"); }");
    assert_kernels("__builtin_printf", "void f() { __builtin_printf(\"read 3\"); }");
    assert_kernels("##", "#define P(a, b) a##b\nvoid f() { P(prin, tf)(\"\"); }");
    assert_kernels("##", "#define P(a, b) a#\\\n#b");
    assert_kernels("%:", "%:include <x>");
    assert_kernels("??", "?\?=include <x>");
}

TEST(solutions_with_kernels) {
    static char text[1 << 16];
    static const char *const files[] = {"lessons/04-a-kernel/solution.cl", "lessons/04-a-kernel/lab.cl"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        FILE *f = fopen(files[i], "r");
        if (!f) {
            skip_because("%s is missing", files[i]);
            return;
        }
        text[fread(text, 1, sizeof text - 1, f)] = '\0';
        fclose(f);
        assert_kernels(NULL, text);
    }
}
