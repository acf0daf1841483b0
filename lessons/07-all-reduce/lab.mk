LAB_07_WITH = tests/scheme_checks.c
