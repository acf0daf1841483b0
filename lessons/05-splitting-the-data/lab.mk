# The experiment of this lesson's README: make build/lessons/05/experiment
$(B)/lessons/05/experiment: \
    $(call source_or_sealed,lessons/05-splitting-the-data/experiment.c,lessons/05/experiment.o) \
    $(B)/libgradsum.a
	@mkdir -p $(@D)
	@echo "LINK $@"
	@$(COMPILE_C) -o $@ $< $(B)/libgradsum.a $(PKG_LIBS) $(LDFLAGS)
