# Speed: ratios, each measured within one run. make bench | bench-scale | bench-cl | bench-layouts | bench-gpt |
# bench-sync | bench-simulate | bench-predict | bench-generate | bench-log | bench-exact |
# accuracy. Figures: tests/README.md.
.PHONY: bench accuracy bench-scale bench-cl bench-layouts bench-gpt bench-sync bench-simulate bench-predict \
        bench-generate bench-log bench-exact

bench: all $(B)/bench-sgemm
	tests/bench/training.sh $(B)/gradsum
	tests/bench/opencl.sh $(B)
	tests/bench/gpt.sh $(B)
	tests/bench/scale.sh $(B)/gradsum

# Takes hours: resnet20's accuracy compared with PyTorch's, with the same recipe.
accuracy: all
	tests/bench/accuracy.sh $(B)/gradsum

bench-scale: all
	tests/bench/scale.sh $(B)/gradsum

# sgemm on OpenCL compared with OpenBLAS, and the time of a first step.
bench-cl: all $(B)/bench-sgemm
	tests/bench/opencl.sh $(B)

# Pipeline, tensor parallelism and ZeRO relative to one core or an all-reduce. NEWEST=PYTHON adds its PyTorch.
bench-layouts: all
	tests/bench/layouts.sh $(B)/gradsum

# A small GPT.
bench-gpt: all
	tests/bench/gpt.sh $(B)

# Synchronisation alone, and training with it. Open MPI is included where its compiler files are installed.
bench-sync: all $(B)/bench-sync $(if $(shell pkg-config --exists ompi-c 2>/dev/null && echo yes),$(B)/bench-sync-mpi)
	tests/bench/sync.sh $(B)

# The step that `gradsum simulate` predicts, compared with the step of runs over --link. CASES="4 ring 5ms,20MB/s".
bench-simulate: all
	tests/bench/simulate.sh $(B)/gradsum

# All predictions compared with measurements: memory, steps of layouts, steps over --link, large clusters.
bench-predict: all $(B)/gradsum-test
	tests/bench/predict.sh $(B)

# Tokens per second of generate, compared with PyTorch. TORCH=/path/to/python uses another PyTorch than Debian's.
TORCH = /usr/bin/python3
bench-generate: all
	for threads in 1 2; do $(TORCH) -B tests/torch/generate.py $(B)/gradsum --threads $$threads || exit 1; done
	for threads in 1 2; do $(TORCH) -B tests/torch/generate.py $(B)/gradsum --threads $$threads --layers 12 \
	    --heads 12 --width 768 --context 128 --vocabulary 50257 --length 40 || exit 1; done

# The cost of train --log.
bench-log: all
	tests/bench/log.sh $(B)/gradsum

# The cost of train --exact.
bench-exact: all
	tests/bench/exact.sh $(B)/gradsum

$(B)/bench-sgemm $(B)/bench-sync: $(B)/bench-%: $(B)/tests/bench/%.o $(B)/libgradsum.a
	$(LINK)

$(B)/bench-sync-mpi: tests/bench/sync_mpi.c
	@echo "LINK $@"
	@$(CC) -std=c11 $(FLAGS) $(DEFINES) $(shell pkg-config --cflags ompi-c) -o $@ $< $(shell pkg-config --libs ompi-c)

-include $(wildcard $(B)/tests/bench/*.d)
