# A picture of the student's schedules: make build/lessons/17/experiment [LAB=FILE]
.PHONY: $(B)/lessons/17/experiment
$(B)/lessons/17/experiment: lessons/17-pipeline/experiment.c $(B)/libgradsum.a
	@mkdir -p $(@D)
	@echo "LINK $@"
	@$(COMPILE_C) -Ilessons -Ilessons/17-pipeline -o $@ $< $(or $(LAB),lessons/17-pipeline/lab.c) \
	    $(B)/libgradsum.a $(PKG_LIBS) $(LDFLAGS)
