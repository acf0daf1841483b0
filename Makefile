# gradsum: make | make demo | make test [GROUP=zero] | make test-failures | make in-one-file | make lab-07 | make labs |
#          make mine | make lessons-html | make slides | make bench | make lint | make install | make uninstall | make clean
# and for its authors, who have the whole source: tests/checks.mk, tests/bench/bench.mk, tests/faults/faults.mk
#
# Every target first looks for the Debian packages that it needs, and is silent when none is missing. As root it installs
# what is missing, and says what; another user gets the list and the command. make INSTALL=1 runs it, with sudo. Only
# lint, lint-all and format install nothing by themselves.

# ---- settings --------------------------------------------------------------------------------------------------------
B        ?= build
PREFIX   ?= /usr/local
DESTDIR  ?=
# make's own default is cc; CC=clang from the command line or from the environment is respected.
CC       := $(if $(filter default,$(origin CC)),gcc,$(CC))
CXX      := $(if $(filter default,$(origin CXX)),g++,$(CXX))
VERSION  := $(shell sed -n 's/^.define GRADSUM_VERSION "\(.*\)"$$/\1/p' src/core/version.h)

# Every compiler shall round a * b and then + c; products use gs_fma (cpu/product.h). tests/flags.mk has other flags, for the
# project's own checks.
OPTIMIZE   = -O3 -g
# libgradsum.so exports what a header marks GS_API (core/api.h).
FLAGS      = $(OPTIMIZE) -fPIC -fvisibility=hidden -MMD -MP -ffp-contract=off -Wall -Wextra $(CHECKED)
DEFINES    = -D_GNU_SOURCE -DCL_TARGET_OPENCL_VERSION=120
COMPILE_C  = $(CC) -std=c11 -Wstrict-prototypes -Wmissing-prototypes $(FLAGS) $(DEFINES) $(LOCALE) -Isrc -I. $(PKG_CFLAGS) $(CFLAGS)
COMPILE_CXX = $(CXX) -std=c++17 $(FLAGS) $(DEFINES) -Isrc -I. $(CXXFLAGS)

# The libraries and their flags; the strings of pages.
.DEFAULT_GOAL = all
include tests/packages.mk src/page/page.mk
ifneq ($(WERROR)$(SANITIZE),)
include tests/flags.mk
endif

# All cores, unless -j says otherwise.
ifeq ($(MAKELEVEL)$(filter -j%,$(MAKEFLAGS)),0)
MAKEFLAGS += -j$(shell nproc 2>/dev/null || echo 1)
endif

# ---- sources ---------------------------------------------------------------------------------------------------------
# The operators of cpu/ are compiled once for each instruction set; the program picks one when it runs (cpu/cpu.h).
CPU_ONCE = cpu/offload.c cpu/open.c cpu/memory.c cpu/openblas_memory.c cpu/pool.c cpu/product_bf16.c
CPU_OPS  = $(filter-out $(CPU_ONCE),$(wildcard cpu/*.c))
ISAS    ?= base $(if $(filter x86_64,$(shell uname -m)),soft v3 v4)
ISA_base =
ISA_soft = -DGS_SOFT_FMA
ISA_v3   = -march=x86-64-v3
ISA_v4   = -march=x86-64-v4 -mprefer-vector-width=512

# The commands `grade` and `lesson` lie with the lessons.
SRC_CLI  = $(wildcard src/cli/*.c src/cli/*/*.c lessons/grade/*.c lessons/predict/*.c) lessons/contain.c lessons/sandbox.c
SRC_LIB  = $(filter-out src/cli/%,$(wildcard src/*.c src/*/*.c src/*/*/*.c)) $(CPU_ONCE) $(wildcard cpu/plain/*.c cl/*.c)
SRC_CXX  = src/comm/gloo/gloo_c.cc

# A sealed handout has some parts as objects, made on the teacher's machine, and not as source (lessons/sealed.list).
SEALED    ?= lessons/sealed/$(shell uname -m)
SEALED_OBJ := $(patsubst $(SEALED)/%,%,$(wildcard $(SEALED)/*/*.o $(SEALED)/*/*/*.o $(SEALED)/*/*/*/*.o))

# Event files of TensorBoard: C from their description.
PROTO = src/log/event

OBJ_LIB  = $(PAGE_PARTS:%=$(B)/%.o) $(B)/$(PROTO).pb-c.o $(SRC_LIB:%.c=$(B)/%.o) $(SRC_CXX:%.cc=$(B)/%.o) \
           $(foreach i,$(ISAS),$(CPU_OPS:%.c=$(B)/%_$(i).o)) $(addprefix $(B)/,$(filter src/% cpu/% cl/%,$(SEALED_OBJ)))
OBJ_CLI  = $(SRC_CLI:%.c=$(B)/%.o)

# ---- build -----------------------------------------------------------------------------------------------------------
.PHONY: all demo test test-failures install uninstall clean packages
all: $(B)/gradsum $(B)/libgradsum.a $(B)/libgradsum.so

# A program in a build folder elsewhere finds the kernels and the data sets of this tree by a link to it
# (src/io/file.c).
ifeq ($(filter $(CURDIR)/%,$(abspath $(B))),)
all $(B)/gradsum-test: | $(B)/source-tree
$(B)/source-tree:
	@mkdir -p $(@D) && ln -sfn "$(CURDIR)" $@
endif

# A program of what it depends on. $(1): other flags and libraries
define LINK
	@echo "LINK $@"
	@$(CC) $(FLAGS) -o $@ $(filter %.o %.a,$^) $(1) $(PKG_LIBS) $(LDFLAGS)
endef

$(B)/gradsum: $(OBJ_CLI) $(B)/libgradsum.a $(B)/objects
	$(LINK)

$(B)/libgradsum.a: $(OBJ_LIB) $(B)/objects
	@echo "AR   $@"
	@rm -f $@ && ar rcs $@ $(OBJ_LIB)

# libgradsum.so (to link with) -> libgradsum.so.MAJOR (looked for by programs that run) -> libgradsum.so.VERSION
SO      = libgradsum.so.$(VERSION)
SO_NAME = libgradsum.so.$(firstword $(subst ., ,$(VERSION)))
# C++ leaves templates among what is visible.
SO_FLAGS = -shared -Wl,-soname,$(SO_NAME) -Wl,--version-script=$(B)/exports

$(B)/exports:
	@mkdir -p $(@D) && echo '{ global: gs_*; local: *; };' > $@

$(B)/$(SO): $(OBJ_LIB) $(B)/objects | $(B)/exports
	$(call LINK,$(SO_FLAGS))

$(B)/libgradsum.so: $(B)/$(SO)
	@ln -sfn $(SO) $(B)/$(SO_NAME) && ln -sfn $(SO_NAME) $@

# $(1): what is said beside the file's name; $(2): other flags
define COMPILE
	@mkdir -p $(@D)
	@echo "CC   $<$(1)"
	@$(COMPILE_C) $(2) $(EXTRA) -c -o $@ $<
endef
$(B)/%.o: %.c | packages
	$(COMPILE)

# -fno-math-errno: sqrtf does not set errno and is one instruction, so loops that use it are vectorised.
define ISA_RULE
$$(B)/cpu/%_$(1).o: cpu/%.c | packages
	$$(call COMPILE, ($(1)),$$(ISA_$(1)) -fno-math-errno -DGS_ISA_SUFFIX=_$(1))
endef
$(foreach i,$(ISAS),$(eval $(call ISA_RULE,$(i))))
$(B)/cpu/open.o: EXTRA = $(ISAS:%=-DGS_HAS_ISA_%)

# The library reads and writes numbers as in C, whatever locale its caller has set.
$(SRC_LIB:%.c=$(B)/%.o): LOCALE = -include src/core/c_locale.h
$(SRC_LIB:%.c=$(B)/%.o): src/core/c_locale.h

# Short pieces are copied by the library; gcc itself would write `rep movsq` there (src/core/memory.h).
$(B)/src/core/memory.o: EXTRA = -fno-builtin-memcpy

$(B)/src/io/file.o: EXTRA = -DGS_PREFIX='"$(PREFIX)"'
$(B)/src/io/file.o: $(B)/prefix

$(B)/%.o: %.cc | packages
	@mkdir -p $(@D)
	@echo "CXX  $<"
	@$(COMPILE_CXX) -c -o $@ $<

$(B)/$(PROTO).pb-c.h: $(PROTO).proto | packages
	@mkdir -p $(@D)
	@echo "PROTO $<"
	@protoc-c --proto_path=$(<D) --c_out=$(@D) $<

$(B)/$(PROTO).pb-c.o: $(B)/$(PROTO).pb-c.h
	@$(CC) -std=c11 -fPIC -fvisibility=hidden -O2 -g -w $(PKG_CFLAGS) -c -o $@ $(B)/$(PROTO).pb-c.c

$(B)/src/log/events.o: EXTRA = -I$(B)/src
$(B)/src/log/events.o: | $(B)/$(PROTO).pb-c.h

$(B)/src/comm/mpi/%.o: EXTRA = $(MPI_CFLAGS)
$(patsubst %.c,$(B)/%.o,$(wildcard src/comm/mpi/*.c)): $(B)/mpi

# These hold PREFIX, the flags for MPI and a hash of the names of all objects, so that a source which was deleted also
# leaves the library. They are written only when that has changed.
define WRITE_IF_NEW
	@mkdir -p $(@D)
	@echo '$(1)' | cmp -s - $@ || echo '$(1)' > $@
endef
$(B)/prefix: FORCE
	$(call WRITE_IF_NEW,$(PREFIX))
$(B)/mpi: FORCE | packages
	$(call WRITE_IF_NEW,$(MPI_CFLAGS))
# By their hash: a command must not be longer than 128 kB.
$(B)/objects: FORCE
	$(call WRITE_IF_NEW,$(shell echo $(patsubst $(B)/%,%,$(OBJ_LIB) $(OBJ_CLI) $(OBJ_TEST)) | cksum))
FORCE:

-include $(OBJ_LIB:.o=.d) $(OBJ_CLI:.o=.d)

# ---- lessons: make lab-07, make labs; tests and checks, where a handout has them -------------------------------------
include lessons/lessons.mk $(wildcard tests/checks.mk tests/bench/bench.mk tests/faults/faults.mk)

# ---- run -------------------------------------------------------------------------------------------------------------
# The full Fashion-MNIST where its package could be installed, else the part of it that comes with gradsum.
DEMO_DATA = $(if $(wildcard /usr/share/datasets/fashion-mnist),fashion-mnist,fashion-mnist-small)

DEMO_TRAIN = $(B)/gradsum launch -n 2 -- train --model lenet --data $(DEMO_DATA) --epochs 3 --save $(B)/demo.safetensors
DEMO_EVAL  = $(B)/gradsum eval --load $(B)/demo.safetensors --data $(DEMO_DATA) --devices cpu,cpu

demo: all
	@echo "The devices of this machine:" && $(B)/gradsum devices
	@echo
	@echo "Two processes train one network: each holds the whole model, sees its half of"
	@echo "every batch, and computes its gradient; the gradients are summed, and both make"
	@echo "the same update."
	@echo "\$$ $(DEMO_TRAIN)"
	@$(DEMO_TRAIN)
	@echo
	@echo "The trained network on the test images, by two workers that need no"
	@echo "synchronisation:"
	@echo "\$$ $(DEMO_EVAL)"
	@$(DEMO_EVAL)

ifneq ($(wildcard tests/main.c),)
# Some shells export a GROUP of their own.
ONE_GROUP = $(if $(filter command,$(firstword $(origin GROUP))),$(GROUP))
test: $(B)/gradsum-test $(B)/gradsum $(B)/gradsum-faults
	$(if $(ONE_GROUP),,$(B)/gradsum-faults --few)
	$(B)/gradsum-test $(or $(ONE_GROUP),--tests) # last: its summary closes the run

# What kills, stops, cuts, floods and waits.
test-failures: $(B)/gradsum-test $(B)/gradsum
	$(B)/gradsum-test --failures
else
test: all lab-graders
	@lessons/sealed_test.sh $(B)
endif

# ---- install ---------------------------------------------------------------------------------------------------------
D = $(DESTDIR)$(PREFIX)
# The public headers: gradsum.h, those that it names beside itself, and what they include. All others stay inside.
BESIDE  = layer/make model/model optim/optimizer sync/scheme comm/create data/order core/philox
PUBLIC  = $(sort $(filter %.h,$(shell $(CC) -Isrc -MM src/gradsum.h $(BESIDE:%=src/%.h))))
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
Libs.private: $(BLAS_LIBS) -lgloo -lstdc++ -lm -lpthread $(MPI_LIBS)
endef
export PKG_CONFIG_FILE

install: all
	rm -rf $(D)/include/gradsum $(D)/share/gradsum
	install -d $(D)/bin $(D)/lib/pkgconfig $(D)/include/gradsum $(D)/share/gradsum/cl $(D)/share/gradsum/datasets
	install -m 755 $(B)/gradsum $(D)/bin/
	install -m 644 $(B)/libgradsum.a $(D)/lib/
	install -m 755 $(B)/$(SO) $(D)/lib/
	ln -sfn $(SO) $(D)/lib/$(SO_NAME)
	ln -sfn $(SO_NAME) $(D)/lib/libgradsum.so
	@for h in $(PUBLIC:src/%=%); do install -D -m 644 src/$$h $(D)/include/gradsum/$$h || exit 1; done
	install -m 644 $(wildcard cl/*.cl cl/*.clh) $(D)/share/gradsum/cl/
	cp -r datasets/fashion-mnist-small $(D)/share/gradsum/datasets/
	@echo "$$PKG_CONFIG_FILE" > $(D)/lib/pkgconfig/gradsum.pc
	install -D -m 644 src/cli/options/completion.bash $(D)/share/bash-completion/completions/gradsum
	install -D -m 644 src/cli/options/completion.zsh $(D)/share/zsh/site-functions/_gradsum
	@sh src/cli/options/manual.sh $(D)/bin/gradsum $(D)/share/man/man1
	@echo "gradsum is in $(D)/bin"
	@case "$(PREFIX)" in /usr|/usr/local) ;; *) \
	   echo "For programs that use the library:"; \
	   echo "  export PKG_CONFIG_PATH=$(PREFIX)/lib/pkgconfig LD_LIBRARY_PATH=$(PREFIX)/lib" ;; esac

# With the PREFIX (and DESTDIR) of the installation; folders that others may share stay.
uninstall:
	rm -f $(D)/bin/gradsum $(D)/lib/libgradsum.a $(D)/lib/libgradsum.so $(D)/lib/libgradsum.so.[0-9]* $(D)/lib/pkgconfig/gradsum.pc
	rm -f $(D)/share/bash-completion/completions/gradsum $(D)/share/zsh/site-functions/_gradsum
	rm -f $(D)/share/man/man1/gradsum.1 $(D)/share/man/man1/gradsum-*.1
	rm -rf $(D)/include/gradsum $(D)/share/gradsum

clean:
	rm -rf $(B)
