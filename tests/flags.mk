# Extra flags for the project's own checks: WERROR=1, and SANITIZE=address,undefined (test-asan, test-tsan, fuzz).

# Warnings are errors only here, because other compilers have other warnings. A strict plain build also checks buffer
# sizes, as Ubuntu's compiler does by default; that needs optimisation.
FORTIFY  = $(if $(filter -O0,$(CFLAGS)),,-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2)
CHECKED  = $(if $(WERROR),-Werror $(if $(SANITIZE),,$(FORTIFY)))

ifneq ($(SANITIZE),)
# Instrumentation makes gcc warn of what cannot happen, so these warnings are off.
CHECKED += $(if $(filter clang%,$(CC)),-Wno-pass-failed,-w) -fsanitize=$(SANITIZE) -fno-omit-frame-pointer
OPTIMIZE = -O1 -g1
# Of the instruction sets, build only the best one of this machine and, without instrumentation, the next one: whole
# trainings take half the time with it (tests/system/sanitize.sh).
HAS_ISA  = $(shell grep -qw $(1) /proc/cpuinfo && echo $(2))
BEST     = $(or $(call HAS_ISA,avx512vl,v4 v3),$(call HAS_ISA,avx2,v3 base),base)
ISAS     = $(if $(filter x86_64,$(shell uname -m)),$(BEST),base)
OTHER    = $(word 2,$(ISAS))
ifneq ($(OTHER),)
$(B)/cpu/%_$(OTHER).o: CFLAGS += -fno-sanitize=all
endif

# Only the kernels, where runs spend their time, and in-one-file are optimised fully. The fuzzers spend no time in the
# kernels, and clang would take minutes to optimise them.
ifneq ($(findstring fuzzer-no-link,$(SANITIZE)),)
ISAS := $(firstword $(ISAS))
$(B)/cpu/%.o: CFLAGS += -fno-sanitize=$(SANITIZE)
else
$(B)/cpu/%.o $(B)/in-one-file: CFLAGS += -O3
# With the check of scopes, the kernels keep their sums in memory, not in registers: 3 to 10 times slower.
$(B)/cpu/%.o: CFLAGS += -fno-sanitize-address-use-after-scope
endif
endif
