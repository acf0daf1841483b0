# The table of ways to train, with this lab's in it.
LAB_19_WITH = lessons/19-gpt/ways.c
