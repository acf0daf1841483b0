/* The kernel of task 4.1, and no other. */
#define TASK 1
#include "lab.cl"
