# The experiment of this lesson's README: make build/lessons/02/experiment
$(B)/lessons/02/experiment: \
    $(call source_or_sealed,lessons/02-forward-and-backward/experiment.c,lessons/02/experiment.o) \
    $(B)/libgradsum.a
	@mkdir -p $(@D)
	@echo "LINK $@"
	@$(COMPILE_C) -o $@ $< $(B)/libgradsum.a $(PKG_LIBS) $(LDFLAGS)
