/* Lesson 2: the function that you write in lab.c beside the operators. (Those have their contracts in src/backend.h.) */
#ifndef LESSON_02_TASKS_H
#define LESSON_02_TASKS_H

/* Task 2.4. The derivative of f by x[0], from two calls of f:
 *
 *     (f at x[0] + h  -  f at x[0] - h) / the distance of these two points
 *
 * f(context) computes a number from an array that x points into: change x[0], and call it. A float has 24 bits, so x[0] + h
 * is rounded, and the distance is not always 2 h: take the distance of the points as they were stored. When you return,
 * x[0] has the bits that it had before. h > 0. */
double lab_difference(double (*f)(void *context), void *context, float *x, float h);

#endif
