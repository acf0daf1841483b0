# Tensor parallelism, with this lab's parts in it.
LAB_18_WITH = lessons/18-tensor-parallel/parts.c
