# gradsum-faults: planted mistakes stand before the functions that they replace, by the linker, in this program and in
# the museum of lesson 22. FAULT_WRAPS are these functions (lessons/22-museum-of-faults/lab.mk).
OBJ_FAULTS  = $(patsubst %.c,$(B)/%.o,$(wildcard tests/faults/*.c))

$(B)/gradsum-faults: $(OBJ_FAULTS) $(B)/libgradsum.a
	$(call LINK,$(FAULT_WRAPS:%=-Wl,--wrap=%))

-include $(OBJ_FAULTS:.o=.d)

.PHONY: test-right test-faults

# The right runs alone.
test-right: $(B)/gradsum-faults
	$(B)/gradsum-faults right

# All planted mistakes are caught and named, and nothing is said of right runs; `make test` does every 7th. Then runs of
# which a rank is killed, hangs, is slow or is cut off: make test-faults DRAWS=1000.
test-faults: $(B)/gradsum-faults $(B)/gradsum
	$(B)/gradsum-faults
	tests/system/failures.sh $(B)/gradsum
