# gradsum: make | make demo | make test | make test-failures | make in-one-file | make lab-07 | make labs |
#          make lessons-html | make slides | make bench | make bench-scale | make bench-cl |
#          make lint | make install | make uninstall | make clean
# and for its authors: make test-labs | make test-oclgrind | make test-asan | make test-tsan | make test-kill |
#          make test-install | make test-portable | make test-browser | make test-interop | make bench-log |
#          make bench-generate | make bench-gpt | make accuracy | make fuzz SECONDS=60 |
#          make bench-simulate | make bench-predict | make bench-layouts | make test-torch |
#          make test-memory | make test-layouts | make test-faults | make test-right | make test-engines |
#          make test-net | make trials SEED=1
#
# Every target first looks for the Debian packages that it needs, and is silent when none is missing. As root it installs
# what is missing, and says what; another user gets the list and the command. make INSTALL=1 runs it, with sudo.

# ---- packages: the one list ------------------------------------------------------------------------------------------
PACKAGES_BUILD    = gcc g++ libc6-dev pkg-config ocl-icd-opencl-dev opencl-headers libopenblas-pthread-dev libgloo-dev \
                    zlib1g-dev libjpeg-dev libpng-dev libpcre2-dev libcjson-dev nettle-dev \
                    libjs-chart.js libprotobuf-c-dev protobuf-c-compiler pocl-opencl-icd
PACKAGES_test     = libcmocka-dev procps
PACKAGES_oclgrind = oclgrind
PACKAGES_lint     = clang-format clang-tidy cppcheck jq yamllint
PACKAGES_demo     = dataset-fashion-mnist
PACKAGES_interop  = python3-venv python3-jsonschema
PACKAGES_sandbox  = bubblewrap
PACKAGES_text     = jargon-text
PACKAGES_labs     = patch oclgrind libxml2-utils jq $(PACKAGES_sandbox) $(PACKAGES_handout)
PACKAGES_pages    = libcmark-gfm-dev libcmark-gfm-extensions-dev
# The sanitizers' and libFuzzer's part has the version of Debian's clang in its name.
PACKAGES_fuzz     = clang $(patsubst clang-%,libclang-rt-%-dev,$(shell apt-cache depends clang 2>/dev/null | \
                    grep -o 'clang-[0-9]*$$'))
PACKAGES_portable = $(PACKAGES_fuzz) gcc-aarch64-linux-gnu g++-aarch64-linux-gnu qemu-user-static python3-venv
# A sealed handout has objects for these processors; make handout FOR=x86_64 makes those of one alone.
FOR               = x86_64 aarch64
ELSEWHERE         = $(if $(OPEN),,$(filter-out $(shell uname -m),$(FOR)))
PACKAGES_handout  = $(if $(filter aarch64,$(ELSEWHERE)),gcc-aarch64-linux-gnu libc6-dev-arm64-cross) \
                    $(if $(filter x86_64,$(ELSEWHERE)),gcc-x86-64-linux-gnu libc6-dev-amd64-cross)
PACKAGES_install  = mandoc zsh
PACKAGES_torch    = python3-torch python3-torchvision
PACKAGES_kill     = procps
PACKAGES_net      = iproute2 procps
PACKAGES_browser  = chromium chromium-driver python3-selenium
# Open MPI is optional: it is compiled in where pkg-config finds it, and only the tests try to install it.
PACKAGES_mpi      = libopenmpi-dev openmpi-bin
PACKAGES_engines  = slurm-wlm munge

# ---- settings --------------------------------------------------------------------------------------------------------
B        ?= build
PREFIX   ?= /usr/local
DESTDIR  ?=
SANITIZE ?=
# make's own default is cc; CC=clang from the command line or from the environment is respected.
ifeq ($(origin CC),default)
CC       := gcc
endif
ifeq ($(origin CXX),default)
CXX      := g++
endif
VERSION  := $(shell sed -n 's/^.define GRADSUM_VERSION "\(.*\)"$$/\1/p' src/core/version.h)

# Warnings are errors for the project's own checks alone: another compiler knows warnings that this one does not.
# gcc warns of what cannot happen when it instruments code, so none of that is shown. A strict plain build also checks the
# sizes of buffers, as Ubuntu's compiler does by itself; that needs optimisation.
WERROR    ?=
FORTIFY    = $(if $(filter -O0,$(CFLAGS)),,-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2)
WARN       = -Wall -Wextra $(if $(WERROR),-Werror) $(if $(SANITIZE),$(if $(filter clang%,$(CC)),-Wno-pass-failed,-w),$(if $(WERROR),$(FORTIFY)))
# Every compiler shall round a * b and then + c, but for the products (below).
FLAGS      = $(if $(SANITIZE),-O1 -g1,-O3 -g) -fPIC -MMD -MP -ffp-contract=off $(WARN) $(if $(SANITIZE),-fsanitize=$(SANITIZE) -fno-omit-frame-pointer)
DEFINES    = -D_GNU_SOURCE -DCL_TARGET_OPENCL_VERSION=120
LIBRARIES  = OpenCL $(OPENBLAS) libcjson nettle zlib libprotobuf-c libjpeg libpng libpcre2-8
# pkg-config does not know OpenBLAS on Fedora; the library with threads is called so there.
OPENBLAS   = $(shell pkg-config --exists openblas 2>/dev/null && echo openblas)
BLAS_LIBS  = $(if $(OPENBLAS),,-lopenblasp)
# Looked up when a compiler runs and not before, so that this very make can install the packages.
PKG_CFLAGS = $(shell pkg-config --cflags $(LIBRARIES)) $(if $(OPENBLAS),,-I/usr/include/openblas)
PKG_LIBS   = $(shell pkg-config --libs $(LIBRARIES)) $(BLAS_LIBS) -lgloo -lstdc++ -lm -lpthread $(MPI_LIBS)
MPI_CFLAGS = $(shell pkg-config --exists ompi-c 2>/dev/null && echo -DGRADSUM_MPI && pkg-config --cflags ompi-c)
MPI_LIBS   = $(shell pkg-config --exists ompi-c 2>/dev/null && pkg-config --libs ompi-c)
COMPILE_C  = $(CC) -std=c11 -Wstrict-prototypes -Wmissing-prototypes $(FLAGS) $(DEFINES) $(LOCALE) -Isrc -I. $(PKG_CFLAGS) $(CFLAGS)
COMPILE_CXX = $(CXX) -std=c++17 $(FLAGS) $(DEFINES) -Isrc -I. $(CXXFLAGS)

# All cores, unless -j says otherwise.
ifeq ($(MAKELEVEL)$(filter -j%,$(MAKEFLAGS)),0)
MAKEFLAGS += -j$(shell nproc 2>/dev/null || echo 1)
endif

# ---- sources ---------------------------------------------------------------------------------------------------------
# The operators of cpu/ are compiled once for each instruction set; the program picks one when it runs (cpu/cpu.h).
CPU_ONCE = cpu/away.c cpu/open.c cpu/memory.c cpu/openblas_memory.c cpu/pool.c cpu/product_bf16.c
CPU_OPS  = $(filter-out $(CPU_ONCE),$(wildcard cpu/*.c))
ifeq ($(shell uname -m),x86_64)
# With sanitizers only the one that this machine runs.
ISAS := $(if $(SANITIZE),$(or $(if $(shell grep -w avx512vl /proc/cpuinfo),v4),$(if $(shell grep -w avx2 /proc/cpuinfo),v3),base),base v3 v4)
else
ISAS = base
endif
ISA_base =
ISA_v3   = -march=x86-64-v3
ISA_v4   = -march=x86-64-v4 -mprefer-vector-width=512

# The commands `grade` and `lesson` lie with the lessons.
SRC_CLI  = $(wildcard src/cli/*.c src/cli/*/*.c lessons/grade/*.c lessons/predict/*.c) lessons/contain.c lessons/sandbox.c
SRC_LIB  = $(filter-out src/cli/%,$(wildcard src/*.c src/*/*.c src/*/*/*.c)) $(CPU_ONCE) $(wildcard cpu/plain/*.c cl/*.c)
SRC_CXX  = src/comm/gloo/gloo_c.cc
SRC_TEST = $(filter-out tests/bench_% tests/torch_%,$(wildcard tests/*.c))

# Templates, styles and scripts of pages become strings of the program (src/page/page.h).
PAGE_PARTS = $(wildcard src/page/*.html src/page/*.css src/page/*.js) src/page/chart.js
CHART_JS   = /usr/share/javascript/chart.js/chart.min.js

# A sealed handout has some parts as objects, made on the teacher's machine, and not as source (lessons/sealed.list).
SEALED    ?= lessons/sealed/$(shell uname -m)
SEALED_OBJ := $(patsubst $(SEALED)/%,%,$(wildcard $(SEALED)/*/*.o $(SEALED)/*/*/*.o $(SEALED)/*/*/*/*.o))

# Event files of TensorBoard: C from their description.
PROTO = src/log/event

OBJ_LIB  = $(PAGE_PARTS:%=$(B)/%.o) $(B)/$(PROTO).pb-c.o $(SRC_LIB:%.c=$(B)/%.o) $(SRC_CXX:%.cc=$(B)/%.o) \
           $(foreach i,$(ISAS),$(CPU_OPS:%.c=$(B)/%_$(i).o)) $(addprefix $(B)/,$(filter src/% cpu/% cl/%,$(SEALED_OBJ)))
OBJ_CLI  = $(SRC_CLI:%.c=$(B)/%.o)
# Tests call parts of the program, such as the one that reads options.
OBJ_TEST = $(SRC_TEST:%.c=$(B)/%.o) $(filter-out %/main.o,$(OBJ_CLI)) $(B)/tests/program_main.o \
           $(addprefix $(B)/lessons/,kernel_check.o outcome.o sanitizer.o source_check.o)

# ---- build -----------------------------------------------------------------------------------------------------------
.PHONY: all demo test test-failures trials test-programs test-oclgrind test-asan test-tsan test-kill test-install test-portable test-browser test-interop \
        test-torch test-memory test-layouts test-faults test-right test-engines test-net \
        fuzz fuzzers bench accuracy bench-scale bench-cl bench-generate bench-gpt bench-sync \
        bench-log bench-layouts bench-simulate bench-predict lint install uninstall clean packages
all: $(B)/gradsum $(B)/libgradsum.a $(B)/libgradsum.so

# A program in a build folder elsewhere finds the kernels and the data sets of this tree by a link to it
# (src/io/file.c).
ifeq ($(filter $(CURDIR)/%,$(abspath $(B))),)
all $(B)/gradsum-test: | $(B)/source-tree
$(B)/source-tree:
	@mkdir -p $(@D) && ln -sfn "$(CURDIR)" $@
endif

$(B)/gradsum: $(OBJ_CLI) $(B)/libgradsum.a
	@echo "LINK $@"
	@$(CC) $(FLAGS) -o $@ $^ $(PKG_LIBS) $(LDFLAGS)

$(B)/libgradsum.a: $(OBJ_LIB)
	@echo "AR   $@"
	@rm -f $@ && ar rcs $@ $^

# libgradsum.so (to link with) -> libgradsum.so.MAJOR (looked for by programs that run) -> libgradsum.so.VERSION
SO      = libgradsum.so.$(VERSION)
SO_NAME = libgradsum.so.$(firstword $(subst ., ,$(VERSION)))

$(B)/$(SO): $(OBJ_LIB)
	@echo "LINK $@"
	@$(CC) $(FLAGS) -shared -Wl,-soname,$(SO_NAME) -o $@ $^ $(PKG_LIBS) $(LDFLAGS)

$(B)/libgradsum.so: $(B)/$(SO)
	@ln -sfn $(SO) $(B)/$(SO_NAME) && ln -sfn $(SO_NAME) $@

$(B)/tests/program_main.o: $(B)/src/cli/main.o
	@$(COMPILE_C) $(EXTRA) -Wno-missing-prototypes -Dmain=gs_program_main -c -o $@ src/cli/main.c
$(B)/gradsum-test: $(OBJ_TEST) $(B)/libgradsum.a
	@echo "LINK $@"
	@$(CC) $(FLAGS) -o $@ -Wl,--wrap=gs_call_run $(OBJ_TEST) $(B)/libgradsum.a -lcmocka $(PKG_LIBS) $(LDFLAGS)

define ISA_RULE
$$(B)/cpu/%_$(1).o: cpu/%.c | packages
	@mkdir -p $$(@D)
	@echo "CC   $$< ($(1))"
	@$$(COMPILE_C) $$(ISA_$(1)) $$(EXTRA) -DGS_ISA_SUFFIX=_$(1) -c -o $$@ $$<
endef
$(foreach i,$(ISAS),$(eval $(call ISA_RULE,$(i))))
# With sanitizers only the kernels, where runs spend their time, are optimised in full, and all of in-one-file. Under the
# fuzzers the kernels parse nothing, and would take clang minutes.
ifneq ($(findstring fuzzer-no-link,$(SANITIZE)),)
$(B)/cpu/%.o: CFLAGS += -fno-sanitize=$(SANITIZE)
else ifneq ($(SANITIZE),)
$(B)/cpu/%.o $(B)/in-one-file: CFLAGS += -O3
# UBSan's checks keep the loops of products out of registers: half of the time of all tests went there.
$(B)/cpu/product_%.o $(B)/cpu/matmul_%.o: CFLAGS += -fno-sanitize=undefined
endif
$(B)/cpu/open.o $(B)/tests/test_product16.o: EXTRA += $(ISAS:%=-DGS_HAS_ISA_%)
# What the file says of itself.
$(B)/cpu/adam_%.o $(B)/cpu/lamb_%.o: EXTRA = -fno-math-errno
# ISO C keeps a * b + c as two roundings; in these loops it shall be one instruction. In all of them: gcc 14 would use
# two where it sees a chain, and then the bits depend on the size of a tile.
IS_CLANG = $(findstring clang,$(shell $(CC) --version 2>/dev/null))
$(B)/cpu/product_%.o $(B)/cpu/matmul_%.o $(B)/cpu/conv2d_groups_%.o: EXTRA = -ffp-contract=fast $(if $(IS_CLANG),,--param=avoid-fma-max-bits=0)

# The library reads and writes numbers as in C, whatever locale its caller has set.
$(SRC_LIB:%.c=$(B)/%.o): LOCALE = -include src/core/c_locale.h
$(SRC_LIB:%.c=$(B)/%.o): src/core/c_locale.h

# Short pieces are copied by the library; gcc itself would write `rep movsq` there (src/core/memory.h).
$(B)/src/core/memory.o: EXTRA = -fno-builtin-memcpy

$(B)/tests/%.o: EXTRA = -DGS_SOURCE_DIR='"$(CURDIR)"' -DGS_BUILD_DIR='"$(abspath $(B))"'
$(B)/src/io/file.o: EXTRA = -DGS_PREFIX='"$(PREFIX)"'
$(B)/src/io/file.o: $(B)/prefix

$(B)/%.o: %.c | packages
	@mkdir -p $(@D)
	@echo "CC   $<"
	@$(COMPILE_C) $(EXTRA) -c -o $@ $<

ifneq ($(SEALED_OBJ),)
$(addprefix $(B)/,$(SEALED_OBJ)): $(B)/%.o: $(SEALED)/%.o
	@mkdir -p $(@D) && cp $< $@
else ifneq ($(wildcard lessons/sealed),)
$(error gradsum: this handout is sealed, and has no objects for this processor: there is no $(SEALED); ask your teacher)
endif

$(B)/%.o: %.cc | packages
	@mkdir -p $(@D)
	@echo "CXX  $<"
	@$(COMPILE_CXX) -c -o $@ $<

.SECONDARY: $(PAGE_PARTS:%=$(B)/%.c)
define STRING_OF_FILE
	@mkdir -p $(@D)
	@{ echo 'extern const char gs_page_$(subst .,_,$(basename $(@F)))[];'; echo 'const char gs_page_$(subst .,_,$(basename $(@F)))[] = {'; \
	   od -An -v -tu1 $< | sed 's/ *\([0-9][0-9]*\)/\1,/g'; echo '0};'; } > $@
endef
$(B)/src/page/%.c: src/page/% Makefile
	$(STRING_OF_FILE)
# Chart.js comes from Debian's package.
$(B)/src/page/chart.js.c: $(CHART_JS) Makefile
	$(STRING_OF_FILE)
$(CHART_JS): | packages
	@test -f $@ || { echo "gradsum: there is no $@; make CHART_JS=FILE takes another chart.min.js of Chart.js 3.9" >&2; exit 1; }

# A byte above 127 is no char of a signed type's initialiser without a warning that means nothing here.
$(B)/src/page/%.o: $(B)/src/page/%.c | packages
	@echo "PART src/page/$*"
	@$(CC) -std=c11 -funsigned-char -fPIC -g -c -o $@ $<

$(B)/$(PROTO).pb-c.h: $(PROTO).proto | packages
	@mkdir -p $(@D)
	@echo "PROTO $<"
	@protoc-c --proto_path=$(<D) --c_out=$(@D) $<

$(B)/$(PROTO).pb-c.o: $(B)/$(PROTO).pb-c.h
	@$(CC) -std=c11 -fPIC -O2 -g -w $(PKG_CFLAGS) -c -o $@ $(B)/$(PROTO).pb-c.c

$(B)/src/log/events.o: EXTRA = -I$(B)/src
$(B)/src/log/events.o: | $(B)/$(PROTO).pb-c.h

$(B)/src/comm/mpi/%.o $(B)/tests/test_mpi.o: EXTRA += $(MPI_CFLAGS)
$(patsubst %.c,$(B)/%.o,$(wildcard src/comm/mpi/*.c) tests/test_mpi.c): $(B)/mpi

# These hold PREFIX and the flags for MPI, and are written only when that has changed.
$(B)/prefix: FORCE
	@mkdir -p $(@D)
	@echo '$(PREFIX)' | cmp -s - $@ || echo '$(PREFIX)' > $@
$(B)/mpi: FORCE | packages
	@mkdir -p $(@D)
	@echo '$(MPI_CFLAGS)' | cmp -s - $@ || echo '$(MPI_CFLAGS)' > $@
FORCE:

-include $(OBJ_LIB:.o=.d) $(OBJ_CLI:.o=.d) $(OBJ_TEST:.o=.d) $(wildcard $(B)/tests/bench_*.d $(B)/tests/torch_*.d $(B)/tests/fuzz/*.d)

include $(wildcard tests/faults/faults.mk)

# ---- lessons: make lab-07, make labs ---------------------------------------------------------------------------------
include lessons/lessons.mk

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
test: $(B)/gradsum-test $(B)/gradsum $(B)/gradsum-faults
	$(B)/gradsum-faults --few
	$(B)/gradsum-test --tests # last: its summary closes the run

# What kills, stops, cuts, floods and waits.
test-failures: $(B)/gradsum-test $(B)/gradsum
	$(B)/gradsum-test --failures
else
test: all lab-graders
	@lessons/sealed_test.sh $(B)
endif

# What the parts of .ci/run that go side by side need: none of them builds it then.
test-programs: $(B)/gradsum-test $(B)/gradsum-faults $(B)/net-relay $(B)/torch-models lessons-html slides

# Every kernel, on small shapes, in a simulator that reports races, uninitialised values and accesses out of bounds.
# TILES=few: with fewer families of tiles.
test-oclgrind: $(B)/gradsum-test
	tests/oclgrind.sh $(B)/gradsum-test $(TILES)

test-asan:
	$(MAKE) B=build/asan SANITIZE=address,undefined build/asan/gradsum-test build/asan/gradsum
	tests/sanitize.sh asan build/asan/gradsum-test

test-tsan:
	$(MAKE) B=build/tsan SANITIZE=thread build/tsan/gradsum-test build/tsan/gradsum
	tests/sanitize.sh tsan build/tsan/gradsum-test

# Runs are killed while they write checkpoints, and while they are started again; KILL_DRAWS=all KILL_SEED=1: see the
# scripts. test-faults strikes runs that only have to end.
test-kill: all
	tests/checkpoint.sh $(B)/gradsum
	tests/restarts.sh $(B)/gradsum

# All that draws what it does, with seeds of one's own: make trials SEED=7. In .ci/run they are always the same.
trials: export KILL_SEED = $(SEED)
trials: export LINKS_SEED = $(SEED)
trials: export FAILURES_SEED = $(SEED)
trials: export GRADSUM_TORCH_SEED = $(SEED)
trials:
	@[ "$(SEED)" ] || { echo "gradsum: make trials SEED=N: there is no seed" >&2; exit 2; }
	$(MAKE) test-faults
	$(MAKE) test-kill
	$(MAKE) test-net PARTS=links
	$(MAKE) test-torch

# Slurm, torchrun and mpirun start the processes. What is not there is left out, and said (with GRADSUM_ENGINES=required: fails; torchrun: TORCHRUN=/path/to/torchrun).
test-engines: all
	tests/engines.sh $(B)/gradsum

# Three hosts, made of name spaces, with two ranks each: all schemes, over good lines and bad ones, links that are cut
# (LINKS_DRAWS=all: in all ways), and `gradsum doctor`.
# Says why where no hosts can be made (with GRADSUM_NET=required: fails). PARTS="schemes cable": these alone.
test-net: all $(B)/net-relay
	tests/net.sh $(B)/gradsum $(B)/net-relay $(PARTS)

$(B)/net-relay: tests/net/relay.c
	@echo "LINK $@"
	@$(CC) -std=c11 $(FLAGS) $(DEFINES) -o $@ $< -lm

# What `gradsum memory` says against what 100 drawn runs take, of which `make test` does 20, and against malloc in 40.
test-memory: $(B)/gradsum-test
	GRADSUM_TEST_DRAWS=100 $(B)/gradsum-test memory_plan

# One hash: every way to divide the work, with the weights of one worker to the bit; 16 others are in `make test`.
test-layouts: $(B)/gradsum-test $(B)/gradsum
	GRADSUM_TEST_LAYOUTS=all $(B)/gradsum-test layouts

test-install: all
	tests/packages_test.sh
	tests/install.sh $(B)

# The pages, those of the lessons too, in a real browser, without a window; says that it skips where there is none (with
# GRADSUM_BROWSER=required: fails). Screenshots: $(B)/browser.
test-browser: all lessons-html slides
	@tests/pages.sh $(B)/lessons-html
	@mkdir -p $(B)/browser
	@if [ -x /usr/bin/python3 ]; then for test in step layouts report sweep eval lessons; do \
	   /usr/bin/python3 -B tests/browser_$$test.py $(B)/gradsum $(B)/browser || exit 1; done; \
	 else echo "test-browser: skipped: no /usr/bin/python3"; [ "$$GRADSUM_BROWSER" != required ]; fi

# By clang, with -O0, the header in C++, for arm64 under qemu, on Intel's OpenCL. What cannot be had is left out, and
# said (with GRADSUM_PORTABLE=required: fails). PARTS="clang arm64": these alone.
test-portable: all $(B)/gradsum-test
	+tests/portable.sh $(B) $(PARTS)

# The logs of train --log, read by TensorBoard and by a JSON schema's validator.
test-interop: all
	tests/interop.sh $(B)/gradsum $(B)/interop

# Every parser, and every message between processes, fed with what it does not expect (tests/fuzz/fuzz.h): by libFuzzer,
# with AddressSanitizer and UBSan, so long each, two at a time.
SECONDS = 60
FUZZ    = address,undefined,float-cast-overflow
fuzz: packages
	$(MAKE) B=$(B)/fuzz CC=clang CXX=clang++ SANITIZE=$(FUZZ),fuzzer-no-link fuzzers
	tests/fuzz.sh $(B)/fuzz $(SECONDS)

OBJ_FUZZED = $(filter-out %/main.o,$(OBJ_CLI)) $(patsubst %,$(B)/lessons/%.o,changed outcome report sanitizer source_check tasks)
FUZZERS    = $(patsubst tests/fuzz/%.c,$(B)/bin/%,$(filter-out %/fuzz.c,$(wildcard tests/fuzz/*.c)))
fuzzers: $(FUZZERS)
$(B)/libfuzzed.a: $(OBJ_FUZZED)
	@rm -f $@ && ar rcs $@ $^
$(FUZZERS): $(B)/bin/%: $(B)/tests/fuzz/%.o $(B)/tests/fuzz/fuzz.o $(B)/libfuzzed.a $(B)/libgradsum.a
	@mkdir -p $(@D)
	@echo "LINK $@"
	@$(CXX) -g -fsanitize=$(FUZZ),fuzzer -Wl,--wrap=gs_bug -o $@ $^ $(PKG_LIBS) $(LDFLAGS)
$(B)/tests/fuzz/%.o: EXTRA = -Ilessons
.SECONDARY: $(FUZZERS:$(B)/bin/%=$(B)/tests/fuzz/%.o)

bench: all $(B)/bench-sgemm $(B)/bench-gpt
	tests/bench.sh $(B)/gradsum
	tests/bench_cl.sh $(B)
	tests/bench_gpt.sh $(B)
	tests/bench_scale.sh $(B)/gradsum

# Hours: resnet20's accuracy beside PyTorch's, with the same recipe.
accuracy: all
	tests/accuracy.sh $(B)/gradsum

bench-scale: all
	tests/bench_scale.sh $(B)/gradsum

# sgemm on OpenCL beside OpenBLAS, and how long a first step takes.
bench-cl: all $(B)/bench-sgemm
	tests/bench_cl.sh $(B)

# Pipeline, tensor parallelism and ZeRO beside one core, or an all-reduce. NEWEST=PYTHON adds that PyTorch's own.
bench-layouts: all
	tests/bench_layouts.sh $(B)/gradsum

# A small GPT.
bench-gpt: all $(B)/bench-gpt
	tests/bench_gpt.sh $(B)

# Synchronisation alone, and training with it. Open MPI is measured beside it where its compiler files are installed.
bench-sync: all $(B)/bench-sync $(if $(shell pkg-config --exists ompi-c 2>/dev/null && echo yes),$(B)/bench-sync-mpi)
	tests/bench_sync.sh $(B)

# A step as `gradsum simulate` predicts it, beside the step that runs over --link take. CASES="4 ring 5ms,20MB/s".
bench-simulate: all
	tests/bench_simulate.sh $(B)/gradsum

# All that is predicted beside what happens: memory, steps of layouts, steps over --link, large clusters.
bench-predict: all $(B)/gradsum-test
	tests/bench_predict.sh $(B)

# Tokens a second of generate beside PyTorch's. TORCH=/path/to/python measures another PyTorch than Debian's.
TORCH = /usr/bin/python3
bench-generate: all
	for threads in 1 2; do $(TORCH) -B tests/torch_generate.py $(B)/gradsum --threads $$threads || exit 1; done
	for threads in 1 2; do $(TORCH) -B tests/torch_generate.py $(B)/gradsum --threads $$threads --layers 12 \
	    --heads 12 --width 768 --context 128 --vocabulary 50257 --length 40 || exit 1; done

# What train --log costs.
bench-log: all
	tests/bench_log.sh $(B)/gradsum

# Random models, and whole runs of train and eval, beside PyTorch; says that it skips where there is none (with
# GRADSUM_TORCH=required: fails). MODELS=600 draws more; GRADSUM_TORCH_SEED=N draws those of an earlier run.
MODELS = 60
test-torch: all $(B)/torch-models
	/usr/bin/python3 -B tests/torch_models.py $(B)/torch-models $(B)/torch --models $(MODELS) \
	    $(GRADSUM_TORCH_SEED:%=--seed %)
	/usr/bin/python3 -B tests/torch_names.py $(B)/gradsum $(B)/torch/names
	/usr/bin/python3 -B tests/torch_gpt2.py $(B)/gradsum $(B)/torch/gpt2
	/usr/bin/python3 -B tests/torch_runs.py $(B)/gradsum $(B)/torch --runs $$(($(MODELS) / 4)) \
	    $(GRADSUM_TORCH_SEED:%=--seed %)

$(B)/torch-models: $(B)/tests/torch_models.o $(B)/libgradsum.a
	@echo "LINK $@"
	@$(CC) $(FLAGS) -o $@ $^ $(PKG_LIBS) $(LDFLAGS)

$(B)/bench-sgemm $(B)/bench-gpt: $(B)/bench-%: $(B)/tests/bench_%.o $(B)/libgradsum.a
	@echo "LINK $@"
	@$(CC) $(FLAGS) -o $@ $^ $(PKG_LIBS) $(LDFLAGS)

$(B)/bench-sync: $(B)/tests/bench_sync.o $(B)/libgradsum.a
	@echo "LINK $@"
	@$(CC) $(FLAGS) -o $@ $^ $(PKG_LIBS) $(LDFLAGS)

$(B)/bench-sync-mpi: tests/bench_sync_mpi.c
	@echo "LINK $@"
	@$(CC) -std=c11 $(FLAGS) $(DEFINES) $(shell pkg-config --cflags ompi-c) -o $@ $< $(shell pkg-config --libs ompi-c)

SOURCES_ALL = $(wildcard src/*.[ch] src/*/*.[ch] src/*/*/*.[ch] $(SRC_CXX) cpu/*.[ch] cpu/plain/*.[ch] cl/*.[ch] cl/*.cl cl/*.clh tests/*.[ch] tests/*/*.[ch] lessons/*.[ch] lessons/*/*.[ch])
lint: packages $(B)/$(PROTO).pb-c.h
	@echo "one file of C++" && ! find src cpu cl lessons tests -name '*.cc' -o -name '*.cpp' -o -name '*.cxx' -o -name '*.hh' -o -name '*.hpp' | \
	    grep -v -x '$(SRC_CXX)' || { echo "lint: C++ in another file than $(SRC_CXX)"; exit 1; }
	@echo "floors" && tests/floors.sh
	@echo "budget" && tests/budget.sh
	@echo "README files" && tests/readme.sh
	@echo "YAML and JSON" && yamllint -s -d '{extends: relaxed, rules: {line-length: {max: 120}}}' lessons/github-actions.yml && \
	    jq empty .devcontainer/devcontainer.json
	@echo "a test that is left out says why" && ! grep -nw 'skip()' tests/*.c || { echo "lint: skip_because(...), not skip()"; exit 1; }
	@echo "columns" && awk 'length > 120 { print FILENAME ":" FNR ": " length " columns, at most 120 are allowed"; \
	    wrong = 1 } END { exit wrong }' $(filter-out tests/%_cases.h,$(SOURCES_ALL)) \
	    $(wildcard datasets/*.sh lessons/*.sh lessons/*/*.sh lessons/*.mk lessons/*/*.mk tests/*.sh)
	@echo "clang-format" && clang-format --dry-run -Werror $(filter-out tests/%_cases.h,$(SOURCES_ALL)) # tables are wide
	@echo "cppcheck" && printf '%s\n' $(filter %.c,$(SOURCES_ALL)) | xargs -P 2 -n 50 cppcheck --quiet --std=c11 --language=c \
	    --enable=warning,performance,portability --inline-suppr --suppress=missingIncludeSystem \
	    --suppress=invalidPointerCast --suppress=ctuuninitvar --error-exitcode=1 -Isrc -I. -D__x86_64__ -DGRADSUM_MPI
	@echo "clang-tidy" && printf '%s\n' $(filter-out tests/% lessons/0% lessons/1% lessons/2%,$(filter %.c,$(SOURCES_ALL))) | B=$(B) xargs -P 2 -n 8 tests/tidy.sh
	@echo "lint: no findings"

# ---- install ---------------------------------------------------------------------------------------------------------
D = $(DESTDIR)$(PREFIX)
# The public headers: gradsum.h, and what it includes. All others stay inside.
PUBLIC  = $(sort $(filter %.h,$(shell $(CC) -Isrc -MM src/gradsum.h)))
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
	@mkdir -p $(D)/share/man/man1 && $(D)/bin/gradsum help --man > $(D)/share/man/man1/gradsum.1
	@for c in $$($(D)/bin/gradsum help --words | cut -f1); do \
	   $(D)/bin/gradsum help --man $$c > $(D)/share/man/man1/gradsum-$$c.1 || exit 1; done
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

# ---- install missing packages ----------------------------------------------------------------------------------------
GOALS    = $(or $(MAKECMDGOALS),all)
PACKAGES = $(PACKAGES_BUILD) $(if $(filter %test test% trials %test.o,$(GOALS)),$(PACKAGES_test)) $(if $(filter handout,$(GOALS)),$(PACKAGES_handout)) \
           $(if $(filter test-oclgrind,$(GOALS)),$(PACKAGES_oclgrind)) $(if $(filter lint,$(GOALS)),$(PACKAGES_lint) $(PACKAGES_test)) \
           $(if $(filter lessons-html slides test-browser lint,$(GOALS)),$(PACKAGES_pages)) \
           $(if $(filter test-labs,$(GOALS)),$(PACKAGES_labs)) $(if $(filter fuzz,$(GOALS)),$(PACKAGES_fuzz))
OPTIONAL = $(if $(filter demo bench,$(GOALS)),$(PACKAGES_demo)) $(if $(filter %test test%,$(GOALS)),$(PACKAGES_mpi) $(PACKAGES_sandbox) $(PACKAGES_text)) \
           $(if $(filter test-browser,$(GOALS)),$(PACKAGES_browser)) $(if $(filter test-portable,$(GOALS)),$(PACKAGES_portable)) \
           $(if $(filter test-interop,$(GOALS)),$(PACKAGES_interop)) $(if $(filter test-torch,$(GOALS)),$(PACKAGES_torch)) \
           $(if $(filter test-install,$(GOALS)),$(PACKAGES_install)) $(if $(filter test-kill,$(GOALS)),$(PACKAGES_kill)) \
           $(if $(filter test-engines,$(GOALS)),$(PACKAGES_engines)) $(if $(filter test-net,$(GOALS)),$(PACKAGES_net))

packages:
	@tests/packages.sh $(if $(filter-out packages,$(GOALS)),,--list "$(PACKAGES) $(PACKAGES_test)" "$(PACKAGES_mpi)") "$(PACKAGES)" "$(OPTIONAL)"
