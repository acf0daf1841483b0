# The labs of lessons/. Each has three programs:
#
#     gradsum     the whole command line with the student's functions in it, for running them and for a debugger
#     checker     check.c, which calls the student's functions in another process (remote/remote.h)
#     hand-in     that process: lab.c, and of the library only what lab.c may call
#
# The grader compiles lab.c, links gradsum and hand-in, and runs the checker once for each task. It knows a lab by the
# list of tasks in its check.c, and nothing that a student has written.
#
#     make lab-07                 grade lessons/07-*/lab.c and build its program; LAB=FILE: another file; JSON=1: for
#                                 scripts
#     make labs                   all of them; SOLUTIONS=1: the solutions
#     make mine                   all that is solved, in one trainer, which trains (mine.sh); EXACT=1: with --exact;
#                                 MINE=DIR: labs from DIR/07/lab.c, where there is such a file
#     make test-labs              what must hold for all labs (tests/lessons/labs.sh)
#     make handout OUT=DIR        the students' copy: no solutions, no answers; what gives them away as objects
#                                 (sealed.list), for FOR="x86_64 aarch64". OPEN=1: with all source
#     make solutions OUT=DIR      the teacher's: all solutions, all answers, how to mark them
#
#     build/lessons/NN/grade      a script: the grader with this lab's commands
#     build/lessons/NN/gradsum, build/lessons/NN/hand-in     made by the grader
#     build/lessons/headers       what a lab may include, and no more

ifneq ($(SEALED_OBJ),)
$(addprefix $(B)/,$(SEALED_OBJ)): $(B)/%.o: $(SEALED)/%.o
	@mkdir -p $(@D) && cp $< $@
else ifneq ($(wildcard lessons/sealed),)
$(error gradsum: this handout is sealed, and has no objects for this processor: there is no $(SEALED); ask your teacher)
endif

# ---- the whole idea in one file --------------------------------------------------------------------------------------
#     make in-one-file            build/in-one-file from lessons/in-one-file/train.c, and the images for it, unpacked
.PHONY: in-one-file
in-one-file: $(B)/in-one-file $(B)/fashion-mnist-small
	@echo "now: $(B)/in-one-file $(B)/fashion-mnist-small lenet 3 ring"

$(B)/in-one-file: lessons/in-one-file/train.c | packages
	@mkdir -p $(@D)
	@echo "CC   $<"
	@$(CC) -std=c11 -Wstrict-prototypes -Wmissing-prototypes $(FLAGS) $(CFLAGS) -o $@ $< -lm -lpthread $(LDFLAGS)

$(B)/fashion-mnist-small: $(wildcard datasets/fashion-mnist-small/*.gz)
	@mkdir -p $@ && for f in $^; do gzip -dc $$f >$@/$$(basename $$f .gz) || exit 1; done && touch $@

$(B)/gradsum-test: | $(B)/in-one-file $(B)/fashion-mnist-small # tests/train/test_in_one_file.c

# ---- the lessons for a browser ---------------------------------------------------------------------------------------
#     make lessons-html           build/lessons-html: open its index.html
#     make slides                 build/slides: a lecture for each lesson
.PHONY: lessons-html slides
lessons-html: $(B)/pages $(B)/gradsum
	@rm -rf $(B)/lessons-html && $(B)/pages site . $(B)/lessons-html $(B)/gradsum
slides: $(B)/pages
	@rm -rf $(B)/slides && $(B)/pages slides . $(B)/slides

OBJ_PAGES = $(patsubst %.c,$(B)/%.o,$(wildcard lessons/pages/*.c))
$(B)/pages: $(OBJ_PAGES) $(B)/libgradsum.a
	$(call LINK,-lcmark-gfm-extensions -lcmark-gfm)
-include $(OBJ_PAGES:.o=.d)

# ---- labs ------------------------------------------------------------------------------------------------------------
LESSONS    = $(notdir $(patsubst %/remote.c,%,$(sort $(wildcard lessons/[0-9][0-9]-*/remote.c))))
lab_number = $(firstword $(subst -, ,$(1)))
LABS       = $(foreach l,$(LESSONS),$(call lab_number,$(l)))
# The file that a student writes: lab.cl where there is one, and then lab.c is a part of the lab as given.
lab_file   = $(if $(wildcard lessons/$(1)/lab.cl),cl,c)
# $(1) "lessons/x.c" or, where a handout has that sealed, $(2) its object: for the experiments in lab.mk
source_or_sealed = $(or $(wildcard $(1)),$(SEALED)/$(2))
# A lab's own settings, if it has any: LAB_05_WITH = other sources that its check needs
-include $(wildcard lessons/*/lab.mk)

LAB_SANITIZE = -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer
# Before its version 14, gcc's AddressSanitizer keeps its heap where Linux may put a program with an address of its
# choice (vm.mmap_rnd_bits=32: one start of four ends before main). So these programs have a fixed address.
LAB_LINK     = $(CC) $(LAB_SANITIZE) -no-pie
LAB_CC       = $(CC) -std=c11 -O1 -g -fPIC -Wall -Wextra $(DEFINES) -Isrc -I. -Ilessons $(PKG_CFLAGS)
# Everything of the program but the student's part. The sanitizers come first in it, so that tools that load a library
# before all others (Oclgrind) do not come before them. clang links them so on its own.
LAB_LIBS     = $(B)/libgradsum.a $(PKG_LIBS) $(if $(IS_CLANG),,-static-libasan -static-libubsan)
LAB_FIVE     = $(if $(IS_CLANG),-ferror-limit=5,-fmax-errors=5)
LAB_CHECK    = $(addprefix $(B)/,lessons/lab_check.o lessons/lab_half.o tests/support/scheme_checks.o)
LAB_OBJ      = $(addprefix $(B)/,lessons/lab.o lessons/lab_loads.o lessons/main.o) $(LAB_CHECK) \
               $(filter-out $(B)/src/cli/main.o $(B)/src/cli/early.o,$(OBJ_CLI))
LAB_CHECKER  = $(addprefix $(B)/,lessons/checker.o lessons/remote/wire.o lessons/remote/rooms.o) \
               $(B)/lessons/remote/common.o $(LAB_CHECK)
LAB_HAND_IN  = $(addprefix $(B)/lessons/hand-in/,hand_in.o wire.o rooms.o common.o)
# What a hand-in may call runs in its own process too; what sends, sums or counts does not (remote/common.c).
LAB_MAY_CALL = $(addprefix $(B)/src/,core/error.o core/text.o core/c_locale.o core/shard.o core/philox.o) \
               $(addprefix $(B)/src/,sync/chunk.o sync/fold.o comm/call.o)
OBJ_GRADER   = $(addprefix $(B)/lessons/,grader.o build.o changed.o contain.o kernel_check.o outcome.o) \
               $(addprefix $(B)/lessons/,report.o sandbox.o sanitizer.o source_check.o tasks.o)

$(B)/lessons/%.o: EXTRA = -Ilessons

$(B)/lessons/main.o: src/cli/main.c | packages
	$(call COMPILE, (for labs),-Dmain=lab_gradsum_main -Wno-missing-prototypes)

# $(1): other flags
define COMPILE_HAND_IN
	@mkdir -p $(@D)
	@echo "CC   $< (for hand-ins)"
	@$(LAB_CC) $(LAB_SANITIZE) -DLAB_HAND_IN $(if $(WERROR),-Werror) -MMD -MP $(1) -c -o $@ $<
endef
$(B)/lessons/hand-in/%.o: lessons/%.c | packages
	$(COMPILE_HAND_IN)
$(B)/lessons/hand-in/%.o: lessons/remote/%.c | packages
	$(COMPILE_HAND_IN)

$(B)/lessons/hand-in/may_call.a: $(LAB_MAY_CALL)
	@rm -f $@ && ar rcs $@ $^

# What a sandboxed compiler sees of this tree.
LAB_HEADERS = $(wildcard src/*.h src/*/*.h src/*/*/*.h cpu/*.h lessons/*.h lessons/*/tasks.h)
$(B)/lessons/headers: $(LAB_HEADERS)
	@rm -rf $@ && mkdir -p $@ && tar -cf - $^ | tar -xf - -C $@ && touch $@

# $(1) "07", $(2) "07-all-reduce", $(3) the objects that its check consists of, $(4) those that are given
define LAB_RULES
$$(B)/lessons/$(1)/%.o: lessons/$(2)/%.c | packages
	@mkdir -p $$(@D)
	@echo "CC   $$<"
	@$$(LAB_CC) -Wstrict-prototypes -Wmissing-prototypes $$(if $$(WERROR),-Werror) -MMD -MP -Ilessons/$(2) -c -o $$@ $$<

# The other half of remote.c.
$$(B)/lessons/$(1)/remote-hand-in.o: lessons/$(2)/remote.c | packages
	$$(call COMPILE_HAND_IN,-Ilessons/$(2))

$$(B)/lessons/$(1)/asked: $$(B)/lessons/$(1)/remote-hand-in.o
	@nm -P $$< >$$@

# The list of tasks, for the grader: what the checks call is not there, and is never called.
$$(B)/lessons/$(1)/list.o: $$(B)/lessons/$(1)/check.o | packages
	@objcopy --weaken $$< $$@

$$(B)/lessons/$(1)/grader: $$(OBJ_GRADER) $$(B)/lessons/$(1)/list.o $$(B)/libgradsum.a
	$$(LINK)

$$(B)/lessons/$(1)/checker: $(3) $(4) $$(B)/lessons/$(1)/remote.o $$(LAB_CHECKER) $$(B)/libgradsum.a
	$$(LINK)

$$(B)/lessons/$(1)/grade: $$(B)/lessons/$(1)/grader $$(B)/lessons/$(1)/checker $(3) $(4) $$(LAB_OBJ) $$(LAB_HAND_IN) \
    $$(B)/lessons/$(1)/asked $$(B)/lessons/hand-in/may_call.a $$(B)/lessons/headers $$(B)/mpi \
    lessons/lessons.mk Makefile $$(wildcard lessons/$(2)/lab.mk)
	$$(file >$$@,$$(LAB_SCRIPT))
	@chmod +x $$@
$$(B)/lessons/$(1)/grade: LAB_NUMBER = $(1)
$$(B)/lessons/$(1)/grade: LESSON = $(2)
$$(B)/lessons/$(1)/grade: LAB_WITH = $(3) $(4)

lab-$(1): $$(B)/lessons/$(1)/grade
	@$$< $$(or $$(LAB),lessons/$(2)/$$(if $$(SOLUTIONS),solution,lab).$(call lab_file,$(2))) $$(B)/lessons/$(1) \
	    $$(if $$(JSON),--json)
.PHONY: lab-$(1)
-include $$(wildcard $$(B)/lessons/$(1)/*.d) $$(patsubst %.c,$$(B)/%.d,$$(filter %.c,$$(LAB_$(1)_WITH)))
endef

# Written by make itself, so that no shell takes the quotes out of the commands.
define LAB_SCRIPT
#!/bin/sh
# grade FILE FOLDER [--json] [--sandbox]: grade FILE as lab $(LAB_NUMBER), and build its programs in FOLDER. Run it in
# the source tree.
LAB_PREPROCESS=$$(cat <<'END'
$(LAB_PREPROCESS_$(call lab_file,$(LESSON)))
END
)
LAB_COMPILE=$$(cat <<'END'
$(LAB_COMPILE_$(call lab_file,$(LESSON)))
END
)
LAB_SYMBOLS=$$(cat <<'END'
$(LAB_SYMBOLS)
END
)
LAB_LINK=$$(cat <<'END'
$(LAB_LINK_$(call lab_file,$(LESSON)))
END
)
LAB_PROGRAM=$$(cat <<'END'
$(LAB_PROGRAM)
END
)
export LAB_PREPROCESS LAB_COMPILE LAB_SYMBOLS LAB_LINK LAB_PROGRAM
file=$$1 folder=$$2
shift 2
mkdir -p "$$folder" || exit 1
exec $(B)/lessons/$(LAB_NUMBER)/grader --lab $(LAB_NUMBER) --title $(LESSON:$(LAB_NUMBER)-%=%) --source "$$file" \
    --given lessons/$(LESSON)/lab.$(call lab_file,$(LESSON)) --folder "$$folder" \
    --checker $(B)/lessons/$(LAB_NUMBER)/checker --headers $(B)/lessons/headers \
    $(LAB_FLAGS_$(call lab_file,$(LESSON))) "$$@"
endef

# Shell commands; $1 is the student's file, $2 the folder for what is built. The first two run in the sandbox.
# What is compiled is the text that was looked at: the file itself could be another text for the second command, by
# __has_include or a macro of the sanitizers. lab.macros has the lines of #define too.
LAB_PREPROCESS_c = $(LAB_CC) -g0 -Ilessons/$(LESSON) -MD -MF "$$2/lab.d" -E -dD -o "$$2/lab.macros" "$$1" && \
                 sed -E 's/^\#(define|undef) .*//' "$$2/lab.macros" >"$$2/lab.i"
LAB_COMPILE_c  = $(LAB_CC) $(if $(IS_CLANG),-Wno-unused-command-line-argument) $(LAB_SANITIZE) $(LAB_FIVE) \
                 -Ilessons/$(LESSON) -c -o "$$2/lab.o" "$$2/lab.i"
LAB_SYMBOLS    = nm -P "$$2/lab.o" >"$$2/lab.symbols" && cp $(B)/lessons/$(LAB_NUMBER)/asked "$$2/wanted.symbols"
# A student's own memcpy, recv or prctl is for the student's file alone: of its names only those that the lab asks for
# are seen from outside.
LAB_LINK_c     = sed -n 's/ U.*//p' $(B)/lessons/$(LAB_NUMBER)/asked >"$$2/wanted.names" && \
                 objcopy --keep-global-symbols="$$2/wanted.names" "$$2/lab.o" "$$2/theirs.o" && \
                 $(LAB_LINK) -o "$$2/hand-in" "$$2/theirs.o" $(B)/lessons/$(LAB_NUMBER)/remote-hand-in.o \
                 $(LAB_HAND_IN) $(B)/lessons/hand-in/may_call.a -lm
LAB_PROGRAM    = $(LAB_LINK) -Wl,--wrap=exit -o "$$2/gradsum" "$$2/lab.o" $(LAB_WITH) $(LAB_OBJ) $(LAB_LIBS)
# Kernels: the hand-in is the library with OpenCL, which finds lab.cl beside it.
LAB_COMPILE_cl = mkdir -p "$$2/cl" && cp "$$1" "$$2/cl/lab.cl"
LAB_LINK_cl    = cp lessons/$(LESSON)/kernels/* "$$2/cl" && \
                 $(LAB_CC) $(LAB_SANITIZE) -Ilessons/$(LESSON) -c -o "$$2/lab.o" lessons/$(LESSON)/lab.c && \
                 $(LAB_LINK) -o "$$2/hand-in" "$$2/lab.o" $(B)/lessons/$(LAB_NUMBER)/remote-hand-in.o \
                 $(LAB_HAND_IN) $(B)/lessons/lab_loads.o $(LAB_LIBS)
LAB_FLAGS_cl   = --kernels

lab_objects = $(patsubst lessons/$(1)/%.c,$(B)/lessons/$(call lab_number,$(1))/%.o,$(wildcard lessons/$(1)/check*.c)) \
              $(addprefix $(B)/,$(filter lessons/$(call lab_number,$(1))/check%.o,$(SEALED_OBJ))) \
              $(patsubst %.c,$(B)/%.o,$(LAB_$(call lab_number,$(1))_WITH))
lab_given   = $(patsubst lessons/$(1)/%.c,$(B)/lessons/$(call lab_number,$(1))/%.o,$(wildcard lessons/$(1)/given.c))
$(foreach l,$(LESSONS),$(eval $(call LAB_RULES,$(call lab_number,$(l)),$(l),\
    $(call lab_objects,$(l)),$(call lab_given,$(l)))))

-include $(OBJ_GRADER:.o=.d) $(LAB_OBJ:.o=.d) $(LAB_CHECKER:.o=.d) $(LAB_HAND_IN:.o=.d)

.PHONY: labs lab-graders
lab-graders: $(LABS:%=$(B)/lessons/%/grade)

labs: $(LABS:%=$(B)/lessons/%/grade)
	@{ $(foreach l,$(LESSONS),$(B)/lessons/$(call lab_number,$(l))/grade \
	   lessons/$(l)/$(if $(SOLUTIONS),solution,lab).$(call lab_file,$(l)) $(B)/lessons/$(call lab_number,$(l)) \
	   $(if $(JSON),--json,&& echo);) } \
	   $(if $(JSON),,| awk '{ print; fflush() } \
	       /^  total / { split($$2, t, "/"); p += t[1]; of += t[2] } END { print "all labs " p "/" of }')

# ---- a trainer of one's own ------------------------------------------------------------------------------------------
# Lab 2's products shall be chains of fused multiply-adds, as the library's are. Else the weights have other bits.
MINE_FMA  = -ffp-contract=fast -fno-tree-vectorize $(if $(shell grep -m 1 -ow fma /proc/cpuinfo),-mfma)
# $$1 the source, $$2 the object, $$3 the lesson
MINE_CC   = case $$3 in 02-*) f="$(MINE_FMA)";; *) f=;; esac; \
            $(COMPILE_C) -MF /dev/null -Ilessons -Ilessons/$$3 $$f -c -o "$$2" "$$1"
# $$1 the program, the others the labs' objects
MINE_LINK = o=$$1; shift; $(CC) $(FLAGS) -Wl,--wrap=gs_backend_replace -Wl,--wrap=gs_cl_open -o "$$o" "$$@" \
            $(B)/lessons/mine.o $(MINE_OBJ) $(B)/libgradsum.a $(PKG_LIBS) $(LDFLAGS)
MINE_OBJ  = $(addprefix $(B)/lessons/,main.o lab_loads.o) $(LAB_CHECK) $(filter-out $(B)/src/cli/main.o,$(OBJ_CLI))
$(B)/lessons/mine.o: EXTRA = -Ilessons -DMINE_KERNELS='"$(abspath $(B))/mine/cl"'
.PHONY: mine
mine: $(LABS:%=$(B)/lessons/%/grade) $(B)/lessons/mine.o $(MINE_OBJ) $(B)/gradsum
	@COMPILE='$(MINE_CC)' LINK='$(MINE_LINK)' lessons/mine.sh $(B) '$(MINE)' '$(EXACT)'
-include $(B)/lessons/mine.d

ifneq ($(wildcard lessons/handout.sh),)
# Solutions, labs as handed out, wrong answers, and what the grader must contain, two at a time. LABS_ONLY="06 07" looks
# at these alone.
.PHONY: test-labs handout solutions
test-labs: $(LABS:%=$(B)/lessons/%/grade) $(B)/gradsum
	tests/lessons/labs.sh $(B) $(LABS_ONLY)
	$(if $(LABS_ONLY),,tests/lessons/solutions.sh $(B))

# The students' copy, in a new folder.
handout:
	@lessons/handout.sh "$(OUT)" $(if $(OPEN),,$(FOR))
handout: | packages

# The teacher's, in a new folder.
solutions:
	@lessons/solutions.sh "$(OUT)"
endif
