/* The version is defined only here. The Makefile reads it here, for the name of the shared library and for
 * pkg-config. Which number changes when: .github/CHANGELOG.md. */
#pragma once

#define GRADSUM_VERSION "0.1.0"
#define GRADSUM_DATE "2026-11-22" /* of this version, for the manual pages */
