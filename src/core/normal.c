#include "core/normal.h"

#include <math.h>

#ifdef __clang__ /* with -std=c11, gcc never contracts */
#pragma STDC FP_CONTRACT OFF
#endif

/* a[0] + a[1] x + ... + a[7] x^7 */
static double polynomial(const double a[8], double x) {
    double y = a[7];
    for (int i = 6; i >= 0; i--) y = y * x + a[i];
    return y;
}

/* The natural logarithm of x > 0: for x = m 2^e with 0.7 < m < 1.42, it is e log 2 + 2 artanh((m - 1) / (m + 1)); the
 * terms of the artanh series after the 12th are below 1e-17. */
static double logarithm(double x) {
    int e;
    double m = frexp(x, &e); /* exact */
    if (m < 0.70710678118654752) {
        m *= 2;
        e--;
    }
    const double s = (m - 1) / (m + 1), square = s * s;
    double sum = 0;
    for (int k = 23; k >= 1; k -= 2) sum = sum * square + 1.0 / k;
    return e * 0.69314718055994531 + 2 * s * sum;
}

/* The coefficients are named as in the paper. */
static double middle(double q) {
    static const double a[8] = {3.3871328727963666080, 133.14166789178437745, 1971.5909503065514427,
                                13731.693765509461125, 45921.953931549871457, 67265.770927008700853,
                                33430.575583588128105, 2509.0809287301226727},
                        b[8] = {1.0,
                                42.313330701600911252,
                                687.18700749205790830,
                                5394.1960214247511077,
                                21213.794301586595867,
                                39307.895800092710610,
                                28729.085735721942674,
                                5226.4952788528545610};
    const double r = 0.180625 - q * q;
    return q * polynomial(a, r) / polynomial(b, r);
}

static double tail(double r) {
    static const double c[8] = {1.42343711074968357734,   4.63033784615654529590,    5.76949722146069140550,
                                3.64784832476320460504,   1.27045825245236838258,    0.241780725177450611770,
                                0.0227238449892691845833, 0.000774545014278341407640},
                        d[8] = {1.0,
                                2.05319162663775882187,
                                1.67638483018380384940,
                                0.689767334985100004550,
                                0.148103976427480074590,
                                0.0151986665636164571966,
                                0.000547593808499534494600,
                                1.05075007164441684324e-9};
    return polynomial(c, r - 1.6) / polynomial(d, r - 1.6);
}

float gs_normal(uint32_t word) {
    const double q = ((double)word + 0.5) / 4294967296.0 - 0.5; /* u - 1/2, exact */
    if (fabs(q) <= 0.425) return (float)middle(q);
    /* r <= 4.79, so the paper's third function, for r > 5, is never needed */
    const double z = tail(sqrt(-logarithm(0.5 - fabs(q))));
    return (float)(q < 0 ? -z : z);
}
