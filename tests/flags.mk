# Other flags, for the project's own checks: WERROR=1, and SANITIZE=address,undefined (test-asan, test-tsan, fuzz).

# Warnings are errors here alone: another compiler knows warnings that this one does not. A strict plain build also
# checks the sizes of buffers, as Ubuntu's compiler does by itself; that needs optimisation.
FORTIFY  = $(if $(filter -O0,$(CFLAGS)),,-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2)
CHECKED  = $(if $(WERROR),-Werror $(if $(SANITIZE),,$(FORTIFY)))

ifneq ($(SANITIZE),)
# gcc warns of what cannot happen when it instruments code, so none of that is shown.
CHECKED += $(if $(filter clang%,$(CC)),-Wno-pass-failed,-w) -fsanitize=$(SANITIZE) -fno-omit-frame-pointer
OPTIMIZE = -O1 -g1
# Of the instruction sets only the one that this machine runs.
HAS_ISA  = $(shell grep -qw $(1) /proc/cpuinfo && echo $(2))
ISAS     = $(if $(filter x86_64,$(shell uname -m)),$(or $(call HAS_ISA,avx512vl,v4),$(call HAS_ISA,avx2,v3),base),base)

# Only the kernels, where runs spend their time, are optimised in full, and all of in-one-file. Under the fuzzers the
# kernels parse nothing, and would take clang minutes.
ifneq ($(findstring fuzzer-no-link,$(SANITIZE)),)
$(B)/cpu/%.o: CFLAGS += -fno-sanitize=$(SANITIZE)
else
$(B)/cpu/%.o $(B)/in-one-file: CFLAGS += -O3
# UBSan's checks keep the loops of products out of registers: half of the time of all tests went there.
$(B)/cpu/product_%.o $(B)/cpu/matmul_%.o: CFLAGS += -fno-sanitize=undefined
endif
endif
