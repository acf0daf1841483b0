/* The kernel of task 4.4, and no other. */
#define TASK 4
#include "lab.cl"
