# The experiment of this lesson's README, with the student's kernels: make build/lessons/04/experiment [LAB=FILE]
.PHONY: $(B)/lessons/04/experiment
$(B)/lessons/04/experiment: lessons/04-a-kernel/experiment.c $(B)/lessons/lab_loads.o $(B)/libgradsum.a
	@mkdir -p $@-kernels && cp cl/*.cl cl/*.clh $@-kernels
	@cp lessons/04-a-kernel/kernels/*.cl $@-kernels
	@cp $(or $(LAB),lessons/04-a-kernel/lab.cl) $@-kernels/lab.cl
	@echo "LINK $@"
	@$(COMPILE_C) -Ilessons -Ilessons/04-a-kernel -o $@ $< lessons/04-a-kernel/lab.c \
	    $(B)/lessons/lab_loads.o $(B)/libgradsum.a $(PKG_LIBS) $(LDFLAGS)
