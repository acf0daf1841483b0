# The labs of lessons/. A lab is one program: the whole command line, the student's lab.c in the place of a part of the
# library, the lab's check.c, and the library as it is. A second program, the grader, compiles lab.c, links that, and
# runs it once for each task. It knows a lab by the list of tasks in its check.c, and nothing that a student has
# written.
#
#     make lab-07                 grade lessons/07-*/lab.c and build its program; LAB=FILE: another file; JSON=1: for scripts
#     make labs                   all of them; SOLUTIONS=1: the solutions
#     make test-labs              what must hold for all labs (tests/labs.sh)
#     make handout OUT=DIR        the students' copy: no solutions, no answers
#
#     build/lessons/NN/grade      a script: the grader with this lab's commands
#     build/lessons/NN/gradsum    the lab's program, made by the grader

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

$(B)/gradsum-test: | $(B)/in-one-file $(B)/fashion-mnist-small # tests/test_in_one_file.c

# ---- labs ------------------------------------------------------------------------------------------------------------
LESSONS    = $(notdir $(patsubst %/check.c,%,$(sort $(wildcard lessons/[0-9][0-9]-*/check.c))))
lab_number = $(firstword $(subst -, ,$(1)))
LABS       = $(foreach l,$(LESSONS),$(call lab_number,$(l)))
# The file that a student writes: lab.cl where there is one, and then lab.c is a part of the lab as given.
lab_file   = $(if $(wildcard lessons/$(1)/lab.cl),cl,c)
# A lab's own settings, if it has any: LAB_05_WITH = other sources that its check needs
-include $(wildcard lessons/*/lab.mk)

LAB_SANITIZE = -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer
LAB_CC       = $(CC) -std=c11 -O1 -g -fPIC -Wall -Wextra $(DEFINES) -Isrc -I. -Ilessons $(PKG_CFLAGS)
# Everything of the program but the student's part. The sanitizers come first in it, so that tools that load a library
# before all others (Oclgrind) do not come before them. clang links them so on its own.
LAB_LIBS     = $(B)/libgradsum.a $(PKG_LIBS) $(if $(IS_CLANG),,-static-libasan -static-libubsan)
LAB_FIVE     = $(if $(IS_CLANG),-ferror-limit=5,-fmax-errors=5)
LAB_OBJ      = $(addprefix $(B)/,lessons/lab.o lessons/lab_check.o lessons/lab_half.o lessons/lab_loads.o lessons/main.o tests/scheme_checks.o) $(filter-out $(B)/src/cli/main.o $(B)/src/cli/early.o,$(OBJ_CLI))
OBJ_GRADER   = $(patsubst %.c,$(B)/%.o,$(filter-out lessons/lab%,$(wildcard lessons/*.c)))

$(B)/lessons/%.o: EXTRA = -Ilessons

$(B)/lessons/main.o: src/cli/main.c | packages
	@mkdir -p $(@D)
	@echo "CC   $< (for labs)"
	@$(COMPILE_C) -Dmain=lab_gradsum_main -Wno-missing-prototypes -c -o $@ $<

# $(1) "07", $(2) "07-all-reduce", $(3) the objects that its check consists of
define LAB_RULES
$$(B)/lessons/$(1)/%.o: lessons/$(2)/%.c | packages
	@mkdir -p $$(@D)
	@echo "CC   $$<"
	@$$(LAB_CC) $$(LAB_SANITIZE) -Wstrict-prototypes -Wmissing-prototypes $$(if $$(WERROR),-Werror) -MMD -MP -Ilessons/$(2) -c -o $$@ $$<

# The list of tasks, for the grader: what the checks call is not there, and is never called.
$$(B)/lessons/$(1)/list.o: lessons/$(2)/check.c | packages
	@mkdir -p $$(@D)
	@$$(LAB_CC) -MMD -MP -Ilessons/$(2) -c -o $$@ $$< && objcopy --weaken $$@

$$(B)/lessons/$(1)/grader: $$(OBJ_GRADER) $$(B)/lessons/$(1)/list.o $$(B)/libgradsum.a
	@echo "LINK $$@"
	@$$(CC) $$(FLAGS) -o $$@ $$^ $$(PKG_LIBS) $$(LDFLAGS)

$$(B)/lessons/$(1)/grade: $$(B)/lessons/$(1)/grader $(3) $$(LAB_OBJ) $$(B)/mpi lessons/lessons.mk Makefile $$(wildcard lessons/$(2)/lab.mk)
	$$(file >$$@,$$(LAB_SCRIPT))
	@chmod +x $$@
$$(B)/lessons/$(1)/grade: LAB_NUMBER = $(1)
$$(B)/lessons/$(1)/grade: LESSON = $(2)
$$(B)/lessons/$(1)/grade: LAB_WITH = $(3)

lab-$(1): $$(B)/lessons/$(1)/grade
	@$$< $$(or $$(LAB),lessons/$(2)/$$(if $$(SOLUTIONS),solution,lab).$(call lab_file,$(2))) $$(B)/lessons/$(1) $$(if $$(JSON),--json)
.PHONY: lab-$(1)
-include $$(wildcard $$(B)/lessons/$(1)/*.d)
endef

# Written by make itself, so that no shell takes the quotes out of the commands.
define LAB_SCRIPT
#!/bin/sh
# grade FILE FOLDER [--json]: grade FILE as lab $(LAB_NUMBER), and build its program in FOLDER. Run it in the source
# tree.
LAB_COMPILE=$$(cat <<'END'
$(LAB_COMPILE_$(call lab_file,$(LESSON)))
END
)
LAB_LINK=$$(cat <<'END'
$(LAB_LINK)
END
)
export LAB_COMPILE LAB_LINK
file=$$1 folder=$$2
shift 2
mkdir -p "$$folder" || exit 1
exec $(B)/lessons/$(LAB_NUMBER)/grader --lab $(LAB_NUMBER) --title $(LESSON:$(LAB_NUMBER)-%=%) --source "$$file" --folder "$$folder" \
    $(LAB_FLAGS_$(call lab_file,$(LESSON))) "$$@"
endef

# Shell commands; $1 is the student's file, $2 the folder for what is built.
LAB_COMPILE_c  = $(LAB_CC) $(LAB_SANITIZE) $(LAB_FIVE) -Ilessons/$(LESSON) -MMD -MF "$$2/lab.d" -c -o "$$2/lab.o" "$$1"
LAB_COMPILE_cl = mkdir -p "$$2/cl" && cp cl/*.cl cl/*.clh "$$2/cl" && \
                 $(if $(wildcard lessons/$(LESSON)/kernels/*),cp lessons/$(LESSON)/kernels/* "$$2/cl" &&) cp "$$1" "$$2/cl/lab.cl" && \
                 $(LAB_CC) $(LAB_SANITIZE) -Ilessons/$(LESSON) -MMD -MF "$$2/lab.d" -c -o "$$2/lab.o" lessons/$(LESSON)/lab.c
LAB_LINK       = $(CC) $(LAB_SANITIZE) -Wl,--wrap=exit -o "$$2/gradsum" "$$2/lab.o" $(LAB_WITH) $(LAB_OBJ) $(LAB_LIBS)
LAB_FLAGS_cl   = --kernels

lab_objects = $(patsubst lessons/$(1)/%.c,$(B)/lessons/$(call lab_number,$(1))/%.o,$(wildcard lessons/$(1)/check*.c)) \
              $(patsubst %.c,$(B)/%.o,$(LAB_$(call lab_number,$(1))_WITH))
$(foreach l,$(LESSONS),$(eval $(call LAB_RULES,$(call lab_number,$(l)),$(l),$(call lab_objects,$(l)))))

-include $(OBJ_GRADER:.o=.d) $(LAB_OBJ:.o=.d)

.PHONY: labs lab-graders
lab-graders: $(LABS:%=$(B)/lessons/%/grade)

labs: $(LABS:%=$(B)/lessons/%/grade)
	@{ $(foreach l,$(LESSONS),$(B)/lessons/$(call lab_number,$(l))/grade \
	   lessons/$(l)/$(if $(SOLUTIONS),solution,lab).$(call lab_file,$(l)) $(B)/lessons/$(call lab_number,$(l)) $(if $(JSON),--json,&& echo);) } \
	   $(if $(JSON),,| awk '{ print; fflush() } /^  total / { split($$2, t, "/"); p += t[1]; of += t[2] } END { print "all labs " p "/" of }')

ifneq ($(wildcard lessons/handout.sh),)
# Solutions, labs as handed out, wrong answers, and what the grader must contain, two at a time. LABS_ONLY="06 07" looks at
# these alone.
.PHONY: test-labs handout
test-labs: $(LABS:%=$(B)/lessons/%/grade) $(B)/gradsum
	tests/labs.sh $(B) $(LABS_ONLY)

# The students' copy, in a new folder.
handout:
	@lessons/handout.sh "$(OUT)"
endif
