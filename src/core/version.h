/* The version is defined only here; the Makefile reads it for the shared library's name and for pkg-config.
 * .github/CHANGELOG.md says which number changes when. */
#pragma once

#define GRADSUM_VERSION "0.1.0"
#define GRADSUM_DATE "2026-11-22" /* release date, for the manual pages */
