# The experiment of this lesson's README: make build/lessons/03/experiment
$(B)/lessons/03/experiment: $(call source_or_sealed,lessons/03-mini-batches/experiment.c,lessons/03/experiment.o) \
    $(B)/libgradsum.a
	@mkdir -p $(@D)
	@echo "LINK $@"
	@$(COMPILE_C) -o $@ $< $(B)/libgradsum.a $(PKG_LIBS) $(LDFLAGS)
