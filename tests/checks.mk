# Authors' checks besides `make test`: make test-oclgrind | test-asan | test-tsan | test-kill | test-engines | test-net
# | test-memory | test-layouts | test-bits | test-install | test-browser | test-portable | test-interop | test-torch
# | fuzz SECONDS=60 | trials SEED=1 | format | lint | lint-all. tests/README.md describes them.
.PHONY: test-programs test-oclgrind asan-programs test-asan tsan-programs test-tsan test-kill trials test-engines \
        test-net test-memory test-layouts test-bits test-install test-browser test-portable test-interop test-torch \
        fuzz fuzz-programs fuzzers format lint lint-all

# ---- the program of the tests ----------------------------------------------------------------------------------------
# Tests call parts of gradsum, such as the one that reads options.
OBJ_TEST = $(patsubst %.c,$(B)/%.o,$(wildcard tests/main.c tests/support/*.c tests/*/test_*.c)) \
           $(filter-out %/main.o,$(OBJ_CLI)) $(B)/tests/program_main.o \
           $(addprefix $(B)/lessons/,kernel_check.o outcome.o sanitizer.o source_check.o)
OF_TESTS = -Wl,--wrap=gs_call_run -lcmocka

$(B)/gradsum-test: $(OBJ_TEST) $(B)/libgradsum.a $(B)/objects
	$(call LINK,$(OF_TESTS))
$(B)/tests/program_main.o: src/cli/main.c | packages
	$(call COMPILE, (for tests),-Dmain=gs_program_main -Wno-missing-prototypes)

$(B)/tests/%.o: EXTRA = -DGS_SOURCE_DIR='"$(CURDIR)"' -DGS_BUILD_DIR='"$(abspath $(B))"'
$(B)/tests/operators/test_product16.o: EXTRA += $(ISAS:%=-DGS_HAS_ISA_%)
$(B)/tests/comm/test_mpi.o: EXTRA += $(MPI_CFLAGS)
$(B)/tests/comm/test_mpi.o: $(B)/mpi
-include $(OBJ_TEST:.o=.d)

# The targets that parallel parts of .ci/run need. They are built first, so that the parts need not build them.
test-programs: $(B)/gradsum-test $(B)/gradsum-faults $(B)/net-relay $(B)/torch-models lessons-html slides

# ---- checks ----------------------------------------------------------------------------------------------------------
# Every kernel, on small shapes, in a simulator that reports races, uninitialised values and accesses out of bounds.
# TILES=few checks fewer families of tiles.
test-oclgrind: $(B)/gradsum-test
	tests/system/oclgrind.sh $(B)/gradsum-test $(TILES)

asan-programs:
	$(MAKE) B=build/asan SANITIZE=address,undefined build/asan/gradsum-test build/asan/gradsum
test-asan: asan-programs
	tests/system/sanitize.sh asan build/asan/gradsum-test

tsan-programs:
	$(MAKE) B=build/tsan SANITIZE=thread build/tsan/gradsum-test build/tsan/gradsum
test-tsan: tsan-programs
	tests/system/sanitize.sh tsan build/tsan/gradsum-test

# Kills runs while they write checkpoints and while they restart; KILL_DRAWS=all KILL_SEED=1: see the scripts.
# test-faults kills ranks of runs that need not recover.
test-kill: all
	tests/system/checkpoint.sh $(B)/gradsum
	tests/system/restarts.sh $(B)/gradsum

# All tests with generated cases, with your own seed: make trials SEED=7. In .ci/run the seed is fixed.
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

# Slurm, torchrun and mpirun start the processes. The test names and skips each missing one, or fails with
# GRADSUM_ENGINES=required. torchrun: TORCHRUN=/path/to/torchrun.
test-engines: all
	tests/system/engines.sh $(B)/gradsum

# Three hosts made of network namespaces, with two ranks each: all schemes, over good links and bad ones, links that are
# cut (LINKS_DRAWS=all: at all points), and `gradsum doctor`. Where no hosts can be made, the test says why; with
# GRADSUM_NET=required it fails. PARTS="schemes cable" runs only these.
test-net: all $(B)/net-relay
	tests/net/net.sh $(B)/gradsum $(B)/net-relay $(PARTS)

$(B)/net-relay: tests/net/relay.c
	@echo "LINK $@"
	@$(CC) -std=c11 $(FLAGS) $(DEFINES) -o $@ $< -lm

# The predictions of `gradsum memory` against the memory of 100 generated runs (20 in `make test`), and against malloc
# in 40.
test-memory: $(B)/gradsum-test
	GRADSUM_TEST_DRAWS=100 $(B)/gradsum-test memory_plan

# One hash: every layout gives the weights of one worker to the bit; 16 other layouts are in `make test`.
test-layouts: $(B)/gradsum-test $(B)/gradsum
	GRADSUM_TEST_LAYOUTS=all $(B)/gradsum-test layout_weights

# One hash on every machine: --exact with each instruction set that the machine has, 1 and 2 threads, 1 to 8 workers,
# against the table golden/bits.txt. Then each operator, bit by bit, with 200 drawn shapes (4 in `make test`) and
# 1,000,003 values (100,003). SHAPES=40: fewer; BITS_STEPS=5: shorter runs.
SHAPES = 200
test-bits: all $(B)/gradsum-test
	tests/system/bits.sh $(B)/gradsum
	GRADSUM_TEST_DRAWN=$(SHAPES) $(B)/gradsum-test bits

test-install: all
	tests/system/packages_test.sh
	tests/system/install.sh $(B)

# The pages, including those of the lessons, in a real browser without a window. Without a browser the test is skipped
# with a message, or fails with GRADSUM_BROWSER=required. Screenshots: $(B)/browser.
test-browser: all lessons-html slides
	@tests/browser/pages.sh $(B)/lessons-html
	@mkdir -p $(B)/browser
	@if [ -x /usr/bin/python3 ]; then for test in step layouts report sweep eval lessons; do \
	   /usr/bin/python3 -B tests/browser/$$test.py $(B)/gradsum $(B)/browser || exit 1; done; \
	 else echo "test-browser: skipped: no /usr/bin/python3"; [ "$$GRADSUM_BROWSER" != required ]; fi

# By clang, with -O0, the header in C++, for arm64 under qemu, on Intel's OpenCL. The test names and skips each missing
# tool, or fails with GRADSUM_PORTABLE=required. PARTS="clang arm64" runs only these.
test-portable: all $(B)/gradsum-test
	+tests/system/portable.sh $(B) $(PARTS)

# TensorBoard and a JSON schema validator read the logs of train --log.
test-interop: all
	tests/system/interop.sh $(B)/gradsum $(B)/interop

# libFuzzer feeds bad input to every parser and every reader of messages between processes (tests/fuzz/fuzz.h), under
# AddressSanitizer and UBSan: SECONDS for each, two at a time.
SECONDS = 60
FUZZ    = address,undefined,float-cast-overflow
fuzz-programs: packages
	$(MAKE) B=$(B)/fuzz CC=clang CXX=clang++ SANITIZE=$(FUZZ),fuzzer-no-link fuzzers
fuzz: fuzz-programs
	tests/fuzz/fuzz.sh $(B)/fuzz $(SECONDS)

OBJ_FUZZED = $(filter-out %/main.o,$(OBJ_CLI)) $(patsubst %,$(B)/lessons/%.o,changed outcome report sanitizer source_check tasks)
FUZZERS    = $(patsubst tests/fuzz/%.c,$(B)/bin/%,$(filter-out %/fuzz.c,$(wildcard tests/fuzz/*.c)))
fuzzers: $(FUZZERS)
$(B)/libfuzzed.a: $(OBJ_FUZZED)
	@rm -f $@ && ar rcs $@ $^
$(FUZZERS): $(B)/bin/%: $(B)/tests/fuzz/%.o $(B)/tests/fuzz/fuzz.o $(B)/libfuzzed.a $(B)/libgradsum.a
	@mkdir -p $(@D)
	@echo "LINK $@"
	@$(CXX) -g -fsanitize=$(FUZZ),fuzzer -Wl,--wrap=gs_bug -o $@ $^ $(PKG_LIBS) $(LDFLAGS)
$(B)/tests/fuzz/%.o: EXTRA = -Ilessons -DGS_PREFIX='"$(PREFIX)"'
.SECONDARY: $(FUZZERS:$(B)/bin/%=$(B)/tests/fuzz/%.o)

# Random models, and whole runs of train and eval, compared with PyTorch. Without PyTorch the test is skipped with a
# message, or fails with GRADSUM_TORCH=required. MODELS=600 generates more; GRADSUM_TORCH_SEED=N repeats those of an
# earlier run.
MODELS = 60
test-torch: all $(B)/torch-models
	/usr/bin/python3 -B tests/torch/models.py $(B)/torch-models $(B)/torch --models $(MODELS) \
	    $(GRADSUM_TORCH_SEED:%=--seed %)
	/usr/bin/python3 -B tests/torch/names.py $(B)/gradsum $(B)/torch/names
	/usr/bin/python3 -B tests/torch/gpt2.py $(B)/gradsum $(B)/torch/gpt2
	/usr/bin/python3 -B tests/torch/runs.py $(B)/gradsum $(B)/torch --runs $$(($(MODELS) / 4)) \
	    $(GRADSUM_TORCH_SEED:%=--seed %)
	/usr/bin/python3 -B tests/torch/boxes.py $(B)/torch/boxes

$(B)/torch-models: $(B)/tests/torch/models.o $(B)/libgradsum.a
	$(LINK)

-include $(wildcard $(B)/tests/fuzz/*.d $(B)/tests/torch/*.d)

# `lint` checks what has changed since it last passed, `lint-all` everything. After a change of a header or of the lint
# rules, `lint` also checks everything.
C_FILES  = $(wildcard $(foreach d,src cpu cl tests lessons,$d/*.[ch] $d/*/*.[ch] $d/*/*/*.[ch]) cl/*.cl cl/*.clh $(SRC_CXX))
SCRIPTS  = $(wildcard datasets/*.sh lessons/*.sh lessons/*/*.sh lessons/*.mk lessons/*/*.mk tests/*.sh tests/*/*.sh)
LINT_BY  = .clang-format .clang-tidy tests/lint/tidy.sh tests/checks.mk
NEWER    = $(shell find $(C_FILES) $(SCRIPTS) $(LINT_BY) -newer $(B)/linted)
CHANGED  = $(if $(wildcard $(B)/linted),$(call changed,$(NEWER)),$(C_FILES) $(SCRIPTS))
changed  = $(if $(filter %.h $(LINT_BY),$(1)),$(C_FILES) $(SCRIPTS),$(filter $(1),$(C_FILES) $(SCRIPTS)))
CHANGED_C = $(filter %.c,$(CHANGED))
# Tables of cases are wide.
FORMATTED = $(filter-out tests/%_cases.h,$(filter $(C_FILES),$(CHANGED)))

format: packages
	$(if $(FORMATTED),clang-format -i $(FORMATTED))

lint-all:
	@rm -f $(B)/linted
	@$(MAKE) --no-print-directory lint

lint: packages $(B)/$(PROTO).pb-c.h
	@touch $(B)/lint-began
	@echo "one file of C++" && ! find src cpu cl lessons tests -name '*.cc' -o -name '*.cpp' -o -name '*.cxx' -o -name '*.hh' -o -name '*.hpp' | \
	    grep -v -x '$(SRC_CXX)' || { echo "lint: C++ in another file than $(SRC_CXX)"; exit 1; }
	@echo "floors" && tests/lint/floors.sh
	@echo "budget" && tests/lint/budget.sh
	@echo "README files" && tests/lint/readme.sh
	@echo "YAML and JSON" && yamllint -s -d '{extends: relaxed, rules: {line-length: {max: 120}}}' lessons/github-actions.yml && \
	    jq empty .devcontainer/devcontainer.json
	@echo "a test that is left out says why" && ! grep -nw 'skip()' tests/*/*.c || { echo "lint: skip_because(...), not skip()"; exit 1; }
	@echo "columns" && awk 'length > 120 { print FILENAME ":" FNR ": " length " columns, at most 120 are allowed"; \
	    wrong = 1 } END { exit wrong }' /dev/null $(FORMATTED) $(filter $(SCRIPTS),$(CHANGED))
	@echo "clang-format" && { [ -z "$(FORMATTED)" ] || clang-format --dry-run -Werror $(FORMATTED); }
	@echo "cppcheck" && printf '%s\n' $(CHANGED_C) | xargs -r -P 2 -n 50 cppcheck --quiet --std=c11 --language=c \
	    --enable=warning,performance,portability --inline-suppr --suppress=missingIncludeSystem \
	    --suppress=invalidPointerCast --suppress=ctuuninitvar --error-exitcode=1 -Isrc -I. -Ilessons -D__x86_64__ -DGRADSUM_MPI
	@echo "clang-tidy" && printf '%s\n' $(filter-out tests/% lessons/0% lessons/1% lessons/2%,$(CHANGED_C)) | \
	    B=$(B) xargs -r -P 2 -n 8 tests/lint/tidy.sh
	@[ "$$TIDY_NODES" ] || mv $(B)/lint-began $(B)/linted # with fewer states the tool may miss something
	@echo "lint: no findings"
