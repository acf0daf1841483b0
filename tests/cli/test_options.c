/* The table of options (train/options/options.h): values as text, and defaults. */
#include "tests/support/program.h"
#include "train/options/options.h"

#include <math.h>

/* Values as text: ranks compare them as text, and logs store them. */
TEST(values_as_text) {
    char text[64];
    const float tenth = 0.1f, next = nextafterf(0.1f, 1), minus = -0.0f;
    const double third = 1.0 / 3;
    for (int i = 0; i < 3; i++) {
        assert_string_equal(gs_option_names_of(GS_OPTION_WIRE)->name[i], gs_wire_name((gs_wire)i));
        assert_string_equal(gs_option_names_of(GS_OPTION_RULE)->name[i], gs_lr_rule_name((gs_lr_rule)i));
    }
    assert_string_equal(gs_option_text(GS_OPTION_FLOAT, &tenth, text, sizeof text), "0.1");
    assert_string_equal(gs_option_text(GS_OPTION_FLOAT, &next, text, sizeof text), "0.10000001");
    assert_string_equal(gs_option_text(GS_OPTION_FLOAT, &minus, text, sizeof text), "0");
    assert_true(strtod(gs_option_text(GS_OPTION_DOUBLE, &third, text, sizeof text), NULL) == third);
}

/* A default may be smaller than any value that a user can type, and then means off; it is never larger. */
TEST(defaults_are_allowed_or_off) {
    const gs_settings s = gs_settings_default();
    for (const gs_run_option *o = gs_run_table; o->name; o++) {
        assert_ptr_equal(gs_run_option_named(o->name), o); /* no name occurs twice */
        assert_true(gs_run_option_is_default(o, &s));
        if (!gs_option_is_number(o->kind)) continue;
        double value = gs_option_number(o->kind, (const char *)&s + o->at);
        bool allowed = value >= o->min && value <= o->max;
        if (!allowed && value > o->min) fail_msg("--%s: the default is %g", o->name, value);
        assert_true(o->min < o->max);
    }
}

/* A training text is not replaced, even if it starts like a page that may be replaced. */
TEST(no_text_to_train_on_is_replaced) {
    const char *book = gs_test_format("%s/book.html", gs_test_folder());
    FILE *f = gs_test_open(book, "w");
    fputs("<!doctype html>\n", f);
    for (int i = 0; i < 200; i++) fputs("the quick brown fox jumps over the lazy dog\n", f);
    assert_int_equal(fclose(f), 0);
    assert_prints(2, "book.html would replace a file of --data text:", "step --data text:%s -o %s", book,
                  book);
}
