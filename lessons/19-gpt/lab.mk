# The experiment of this lesson's README: make build/lessons/19/experiment
$(B)/lessons/19/experiment: $(call source_or_sealed,lessons/19-gpt/experiment.c,lessons/19/experiment.o) \
    $(B)/libgradsum.a
	@mkdir -p $(@D)
	@echo "LINK $@"
	@$(COMPILE_C) -o $@ $< $(B)/libgradsum.a $(PKG_LIBS) $(LDFLAGS)
