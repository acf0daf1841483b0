/* The kernel of task 4.3, and no other. */
#define TASK 3
#include "lab.cl"
