# gradsum: make | make demo | make test | make bench | make lint | make install
#
# Every target installs the Debian packages that it needs when they are missing (as root or with sudo), and is silent
# when they are there. Without either it prints the list and stops.

# ---- packages: the one list ------------------------------------------------------------------------------------------
PACKAGES_BUILD = gcc g++ pkg-config ocl-icd-opencl-dev opencl-headers libopenblas-pthread-dev libgloo-dev \
                 zlib1g-dev libcjson-dev nettle-dev
PACKAGES_RUN   = pocl-opencl-icd
PACKAGES_DATA  = dataset-fashion-mnist
PACKAGES_TEST  = libcmocka-dev
PACKAGES_CHECK = oclgrind clang clang-format clang-tidy cppcheck

# ---- settings --------------------------------------------------------------------------------------------------------
B       ?= build
PREFIX  ?= /usr/local
DESTDIR ?=
SANITIZE ?=
CC  = gcc
CXX = g++

WARN     = -Wall -Wextra -Werror
OPTIMISE ?= -O3 -g
FLAGS    = $(OPTIMISE) -fPIC -MMD -MP $(WARN) $(if $(SANITIZE),-fsanitize=$(SANITIZE) -fno-omit-frame-pointer)
DEFINES  = -D_GNU_SOURCE -DCL_TARGET_OPENCL_VERSION=120 -DGS_PREFIX='"$(PREFIX)"'
PKGS     = OpenCL openblas libcjson nettle zlib
# Looked up when a compiler runs, so that the packages can be installed by this very make.
PKG_CFLAGS = $(shell pkg-config --cflags $(PKGS))
PKG_LIBS   = $(shell pkg-config --libs $(PKGS)) -lgloo -lstdc++ -lm -lpthread
CFLAGS_ALL   = -std=c11 $(FLAGS) -Wstrict-prototypes -Wmissing-prototypes $(DEFINES) -Isrc -I. $(PKG_CFLAGS) $(CFLAGS)
CXXFLAGS_ALL = -std=c++17 $(FLAGS) $(DEFINES) -Isrc -I. $(CXXFLAGS)

# ---- sources ---------------------------------------------------------------------------------------------------------
# The operators of cpu/ are compiled once for each instruction set; the program picks one when it runs (cpu/cpu.h).
CPU_ONCE = cpu/open.c cpu/memory.c cpu/pool.c
CPU_OPS  = $(filter-out $(CPU_ONCE),$(wildcard cpu/*.c))
ifeq ($(shell uname -m),x86_64)
ISAS = base v3 v4
else
ISAS = base
endif
ISA_base =
ISA_v3   = -march=x86-64-v3
ISA_v4   = -march=x86-64-v4 -mprefer-vector-width=512

SRC_CLI  = $(wildcard src/cli/*.c)
SRC_LIB  = $(filter-out $(SRC_CLI),$(wildcard src/*.c src/*/*.c)) $(CPU_ONCE) $(wildcard cl/*.c)
SRC_CXX  = src/sync/gloo_c.cc
SRC_TEST = $(wildcard tests/*.c)

OBJ_LIB  = $(SRC_LIB:%.c=$(B)/%.o) $(SRC_CXX:%.cc=$(B)/%.o) $(foreach i,$(ISAS),$(CPU_OPS:%.c=$(B)/%_$(i).o))
OBJ_CLI  = $(SRC_CLI:%.c=$(B)/%.o)
OBJ_TEST = $(SRC_TEST:%.c=$(B)/%.o)

# ---- what to build ---------------------------------------------------------------------------------------------------
.PHONY: all demo test bench lint install clean
all: $(B)/gradsum $(B)/libgradsum.so

$(B)/gradsum: $(OBJ_CLI) $(B)/libgradsum.a
	$(CC) $(FLAGS) -o $@ $^ $(PKG_LIBS) $(LDFLAGS)

$(B)/libgradsum.a: $(OBJ_LIB)
	rm -f $@ && ar rcs $@ $^

$(B)/libgradsum.so: $(OBJ_LIB)
	$(CC) $(FLAGS) -shared -Wl,-soname,libgradsum.so.0 -o $@ $^ $(PKG_LIBS) $(LDFLAGS)

$(B)/gradsum-test: $(OBJ_TEST) $(B)/libgradsum.a $(B)/gradsum
	$(CC) $(FLAGS) -o $@ $(OBJ_TEST) $(B)/libgradsum.a -lcmocka $(PKG_LIBS) $(LDFLAGS)

define CPU_RULE
$$(B)/cpu/%_$(1).o: cpu/%.c | packages-build
	@mkdir -p $$(@D)
	$$(CC) $$(CFLAGS_ALL) $$(ISA_$(1)) -DGS_ISA_SUFFIX=_$(1) -c -o $$@ $$<
endef
$(foreach i,$(ISAS),$(eval $(call CPU_RULE,$(i))))

$(B)/tests/%.o: tests/%.c | packages-build packages-test
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_ALL) -DGS_SOURCE_DIR='"$(CURDIR)"' -DGS_BUILD_DIR='"$(abspath $(B))"' -c -o $@ $<

$(B)/%.o: %.c | packages-build
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_ALL) -c -o $@ $<

$(B)/%.o: %.cc | packages-build
	@mkdir -p $(@D)
	$(CXX) $(CXXFLAGS_ALL) -c -o $@ $<

.PHONY: packages-build packages-test
packages-build packages-test:

test: $(B)/gradsum-test
	$(B)/gradsum-test

clean:
	rm -rf $(B)

-include $(OBJ_LIB:.o=.d) $(OBJ_CLI:.o=.d) $(OBJ_TEST:.o=.d)
