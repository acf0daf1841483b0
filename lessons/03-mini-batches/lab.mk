# The experiment of this lesson's README: make build/lessons/03/experiment
$(B)/lessons/03/experiment: lessons/03-mini-batches/experiment.c $(B)/libgradsum.a
	@mkdir -p $(@D)
	@echo "LINK $@"
	@$(COMPILE_C) -o $@ $^ $(PKG_LIBS) $(LDFLAGS)
