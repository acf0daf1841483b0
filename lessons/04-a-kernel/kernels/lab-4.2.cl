/* The kernel of task 4.2, and no other. */
#define TASK 2
#include "lab.cl"
