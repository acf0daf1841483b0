/* Numbers as people read them. */
#pragma once

/* 1234567 -> "1,234,567"; 0.4173, as the speed of a large model, -> "0.42". Four results may be in use. */
const char *gs_thousands(double number);

/* A NaN without a sign, which printf would show: "nan" says all there is to say, "-nan" makes one wonder. */
double gs_shown(double number);

/* A share in percent, rounded to one place behind the point, for "%.1f %%": never "-0.0 %". */
double gs_percent(double share);
