# The experiment of this lesson's README: make build/lessons/05/experiment
$(B)/lessons/05/experiment: lessons/05-splitting-the-data/experiment.c $(B)/libgradsum.a
	@mkdir -p $(@D)
	@echo "LINK $@"
	@$(COMPILE_C) -o $@ $^ $(PKG_LIBS) $(LDFLAGS)
