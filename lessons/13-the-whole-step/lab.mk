# The table of ways to train, with this lab's in it.
LAB_13_WITH = lessons/13-the-whole-step/ways.c
