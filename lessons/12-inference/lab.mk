# The experiment of this lesson's README, with the student's server: make build/lessons/12/experiment [LAB=FILE]
.PHONY: $(B)/lessons/12/experiment
$(B)/lessons/12/experiment: lessons/12-inference/experiment.c $(B)/libgradsum.a
	@mkdir -p $(@D)
	@echo "LINK $@"
	@$(COMPILE_C) -Ilessons -Ilessons/12-inference -o $@ $< $(or $(LAB),lessons/12-inference/lab.c) \
	    $(B)/libgradsum.a $(PKG_LIBS) $(LDFLAGS)
