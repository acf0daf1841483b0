# gradsum: make | make demo | make test | make bench | make lint | make install | make clean
# and for its authors: make test-oclgrind | make test-asan | make test-tsan | make test-install
#
# Every target first installs the Debian packages that it needs and that are missing (as root or with sudo), saying
# which; it is silent when nothing is missing. Where that cannot be done it prints the list and stops.

# ---- packages: the one list ------------------------------------------------------------------------------------------
PACKAGES_BUILD    = gcc g++ libc6-dev pkg-config ocl-icd-opencl-dev opencl-headers libopenblas-pthread-dev libgloo-dev \
                    zlib1g-dev libcjson-dev nettle-dev pocl-opencl-icd
PACKAGES_test     = libcmocka-dev
PACKAGES_oclgrind = oclgrind
PACKAGES_lint     = clang-format clang-tidy cppcheck
PACKAGES_demo     = dataset-fashion-mnist

# ---- settings --------------------------------------------------------------------------------------------------------
B        ?= build
PREFIX   ?= /usr/local
DESTDIR  ?=
SANITIZE ?=
CC       := gcc
CXX      := g++
VERSION   = 0.1.0

# gcc warns of what cannot happen when it instruments code, so only the plain build is strict.
WARN       = -Wall -Wextra $(if $(SANITIZE),-w,-Werror)
FLAGS      = -O3 -g -fPIC -MMD -MP $(WARN) $(if $(SANITIZE),-fsanitize=$(SANITIZE) -fno-omit-frame-pointer)
DEFINES    = -D_GNU_SOURCE -DCL_TARGET_OPENCL_VERSION=120 -DGRADSUM_VERSION='"$(VERSION)"'
LIBRARIES  = OpenCL openblas libcjson nettle zlib
# Looked up when a compiler runs and not before, so that this very make can install the packages.
PKG_CFLAGS = $(shell pkg-config --cflags $(LIBRARIES))
PKG_LIBS   = $(shell pkg-config --libs $(LIBRARIES)) -lgloo -lstdc++ -lm -lpthread
COMPILE_C  = $(CC) -std=c11 -Wstrict-prototypes -Wmissing-prototypes $(FLAGS) $(DEFINES) -Isrc -I. $(PKG_CFLAGS) $(CFLAGS)
COMPILE_CXX = $(CXX) -std=c++17 $(FLAGS) $(DEFINES) -Isrc -I. $(CXXFLAGS)

# All cores, unless -j says otherwise.
ifeq ($(MAKELEVEL)$(filter -j%,$(MAKEFLAGS)),0)
MAKEFLAGS += -j$(shell nproc 2>/dev/null || echo 1)
endif

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

# ---- build -----------------------------------------------------------------------------------------------------------
.PHONY: all demo test test-oclgrind test-asan test-tsan test-install bench lint install clean packages
all: $(B)/gradsum $(B)/libgradsum.a $(B)/libgradsum.so

$(B)/gradsum: $(OBJ_CLI) $(B)/libgradsum.a
	@echo "LINK $@"
	@$(CC) $(FLAGS) -o $@ $^ $(PKG_LIBS) $(LDFLAGS)

$(B)/libgradsum.a: $(OBJ_LIB)
	@echo "AR   $@"
	@rm -f $@ && ar rcs $@ $^

$(B)/libgradsum.so: $(OBJ_LIB)
	@echo "LINK $@"
	@$(CC) $(FLAGS) -shared -Wl,-soname,libgradsum.so.0 -o $@ $^ $(PKG_LIBS) $(LDFLAGS)

$(B)/gradsum-test: $(OBJ_TEST) $(B)/libgradsum.a
	@echo "LINK $@"
	@$(CC) $(FLAGS) -o $@ $(OBJ_TEST) $(B)/libgradsum.a -lcmocka $(PKG_LIBS) $(LDFLAGS)

define ISA_RULE
$$(B)/cpu/%_$(1).o: cpu/%.c | packages
	@mkdir -p $$(@D)
	@echo "CC   $$< ($(1))"
	@$$(COMPILE_C) $$(ISA_$(1)) -DGS_ISA_SUFFIX=_$(1) -c -o $$@ $$<
endef
$(foreach i,$(ISAS),$(eval $(call ISA_RULE,$(i))))

$(B)/tests/%.o: EXTRA = -DGS_SOURCE_DIR='"$(CURDIR)"' -DGS_BUILD_DIR='"$(abspath $(B))"'
$(B)/src/io/file.o: EXTRA = -DGS_PREFIX='"$(PREFIX)"'
$(B)/src/io/file.o: $(B)/prefix

$(B)/%.o: %.c | packages
	@mkdir -p $(@D)
	@echo "CC   $<"
	@$(COMPILE_C) $(EXTRA) -c -o $@ $<

$(B)/%.o: %.cc | packages
	@mkdir -p $(@D)
	@echo "CXX  $<"
	@$(COMPILE_CXX) -c -o $@ $<

# Holds PREFIX, and is written only when that has changed.
$(B)/prefix: FORCE
	@mkdir -p $(@D)
	@echo '$(PREFIX)' | cmp -s - $@ || echo '$(PREFIX)' > $@
FORCE:

-include $(OBJ_LIB:.o=.d) $(OBJ_CLI:.o=.d) $(OBJ_TEST:.o=.d)

# ---- run -------------------------------------------------------------------------------------------------------------
# The full Fashion-MNIST where its package could be installed, else the part of it that comes with gradsum.
DEMO_DATA = $(if $(wildcard /usr/share/datasets/fashion-mnist),fashion-mnist,fashion-mnist-small)

demo: all
	@echo "The devices of this machine:" && $(B)/gradsum devices
	@echo
	@echo "Two processes train one network: each holds the whole model, sees its half of every batch, and"
	@echo "computes its gradient; Gloo sums the gradients, and both make the same update."
	@echo "\$$ gradsum launch -n 2 -- train --model lenet --data $(DEMO_DATA) --epochs 3"
	@$(B)/gradsum launch -n 2 -- train --model lenet --data $(DEMO_DATA) --epochs 3 --save $(B)/demo.safetensors
	@echo
	@echo "The trained network on the test images, by two workers that need no synchronisation:"
	@echo "\$$ gradsum eval --load $(B)/demo.safetensors --data $(DEMO_DATA) --devices cpu,cpu"
	@$(B)/gradsum eval --load $(B)/demo.safetensors --data $(DEMO_DATA) --devices cpu,cpu

test: $(B)/gradsum-test $(B)/gradsum
	POCL_SIGFPE_HANDLER=0 $(B)/gradsum-test

# Every kernel, on small shapes, in a simulator that reports races, uninitialised values and accesses out of bounds.
test-oclgrind: $(B)/gradsum-test
	tests/oclgrind.sh $(B)/gradsum-test

test-asan:
	$(MAKE) B=build/asan SANITIZE=address,undefined build/asan/gradsum-test build/asan/gradsum
	tests/sanitize.sh asan build/asan/gradsum-test

test-tsan:
	$(MAKE) B=build/tsan SANITIZE=thread build/tsan/gradsum-test build/tsan/gradsum
	tests/sanitize.sh tsan build/tsan/gradsum-test

test-install: all
	tests/install.sh

bench: all
	tests/bench.sh $(B)/gradsum

SOURCES_ALL = $(wildcard src/*.[ch] src/*/*.[ch] src/*/*.cc cpu/*.[ch] cl/*.[ch] cl/*.cl cl/*.clh tests/*.[ch])
lint: packages
	@echo "clang-format" && clang-format --dry-run -Werror $(filter-out tests/%_cases.h,$(SOURCES_ALL)) # tables are wide
	@echo "cppcheck" && cppcheck --quiet --std=c11 --language=c --enable=warning,performance,portability -j 2 \
	    --inline-suppr --suppress=missingIncludeSystem --suppress=invalidPointerCast --error-exitcode=1 \
	    -Isrc -I. -D__x86_64__ $(filter %.c,$(SOURCES_ALL))
	@echo "clang-tidy" && printf '%s\n' $(filter-out tests/%,$(filter %.c,$(SOURCES_ALL))) | xargs -P 2 -n 8 tests/tidy.sh
	@echo "lint: no findings"

# ---- install ---------------------------------------------------------------------------------------------------------
D = $(DESTDIR)$(PREFIX)
HEADERS = $(wildcard src/*.h src/*/*.h)
define PKG_CONFIG_FILE
prefix=$(PREFIX)
libdir=$${prefix}/lib
includedir=$${prefix}/include

Name: gradsum
Description: Learn data-parallel training by running it
Version: $(VERSION)
Requires.private: $(LIBRARIES)
Cflags: -I$${includedir}/gradsum
Libs: -L$${libdir} -lgradsum
Libs.private: -lgloo -lstdc++ -lm -lpthread
endef
export PKG_CONFIG_FILE

install: all
	install -d $(D)/bin $(D)/lib/pkgconfig $(D)/include/gradsum $(D)/share/gradsum/cl $(D)/share/gradsum/datasets
	install -m 755 $(B)/gradsum $(D)/bin/
	install -m 644 $(B)/libgradsum.a $(D)/lib/
	install -m 755 $(B)/libgradsum.so $(D)/lib/libgradsum.so.0
	ln -sf libgradsum.so.0 $(D)/lib/libgradsum.so
	@for h in $(filter-out src/cli/%,$(HEADERS:src/%=%)); do install -D -m 644 src/$$h $(D)/include/gradsum/$$h; done
	install -m 644 $(wildcard cl/*.cl cl/*.clh) $(D)/share/gradsum/cl/
	cp -r datasets/fashion-mnist-small $(D)/share/gradsum/datasets/
	@echo "$$PKG_CONFIG_FILE" > $(D)/lib/pkgconfig/gradsum.pc
	@echo "gradsum is in $(D)/bin"

clean:
	rm -rf $(B)

# ---- install missing packages ----------------------------------------------------------------------------------------
GOALS    = $(or $(MAKECMDGOALS),all)
PACKAGES = $(PACKAGES_BUILD) $(if $(filter %test test% %test.o,$(GOALS)),$(PACKAGES_test)) \
           $(if $(filter test-oclgrind,$(GOALS)),$(PACKAGES_oclgrind)) $(if $(filter lint,$(GOALS)),$(PACKAGES_lint) $(PACKAGES_test))
OPTIONAL = $(if $(filter demo bench,$(GOALS)),$(PACKAGES_demo))

packages:
	@tests/packages.sh "$(PACKAGES)" "$(OPTIONAL)"
