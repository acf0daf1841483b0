# gradsum-faults: the linker replaces functions by versions with planted mistakes, in this program and in
# the museum of lesson 22. FAULT_WRAPS lists these functions (lessons/22-museum-of-faults/lab.mk).
OBJ_FAULTS  = $(patsubst %.c,$(B)/%.o,$(wildcard tests/faults/*.c))

$(B)/gradsum-faults: $(OBJ_FAULTS) $(B)/libgradsum.a
	$(call LINK,$(FAULT_WRAPS:%=-Wl,--wrap=%))

-include $(OBJ_FAULTS:.o=.d)

.PHONY: test-right test-faults

# Only the correct runs.
test-right: $(B)/gradsum-faults
	$(B)/gradsum-faults right

# All planted mistakes are caught and named, and nothing is reported for correct runs; `make test` runs every 7th. Then
# runs in which a rank is killed, hangs, is slow or is cut off: make test-faults DRAWS=1000.
test-faults: $(B)/gradsum-faults $(B)/gradsum
	$(B)/gradsum-faults
	tests/system/failures.sh $(B)/gradsum
