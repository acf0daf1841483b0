# Tensor parallelism, with this lab's parts in it. In a sealed handout parts.c, which has the library's in it, is an
# object.
LAB_18_WITH = $(or $(wildcard lessons/18-tensor-parallel/parts.c),$(B)/lessons/18/parts.o)
