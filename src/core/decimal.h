/* A float as the shortest decimal number that stands for it. */
#pragma once

/* 0.05f -> 0.05, and not 0.0500000007: what was typed. */
double gs_decimal(float);
