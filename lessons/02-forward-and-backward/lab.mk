# The experiment of this lesson's README: make build/lessons/02/experiment
$(B)/lessons/02/experiment: lessons/02-forward-and-backward/experiment.c $(B)/libgradsum.a
	@mkdir -p $(@D)
	@echo "LINK $@"
	@$(COMPILE_C) -o $@ $^ $(PKG_LIBS) $(LDFLAGS)
