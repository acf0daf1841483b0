# How fast: ratios, each measured in one run. make bench | bench-scale | bench-cl | bench-layouts | bench-gpt | bench-sync |
# bench-simulate | bench-predict | bench-generate | bench-log | accuracy. tests/README.md has the figures.
.PHONY: bench accuracy bench-scale bench-cl bench-layouts bench-gpt bench-sync bench-simulate bench-predict bench-generate \
        bench-log

bench: all $(B)/bench-sgemm
	tests/bench/training.sh $(B)/gradsum
	tests/bench/opencl.sh $(B)
	tests/bench/gpt.sh $(B)
	tests/bench/scale.sh $(B)/gradsum

# Hours: resnet20's accuracy beside PyTorch's, with the same recipe.
accuracy: all
	tests/bench/accuracy.sh $(B)/gradsum

bench-scale: all
	tests/bench/scale.sh $(B)/gradsum

# sgemm on OpenCL beside OpenBLAS, and how long a first step takes.
bench-cl: all $(B)/bench-sgemm
	tests/bench/opencl.sh $(B)

# Pipeline, tensor parallelism and ZeRO beside one core, or an all-reduce. NEWEST=PYTHON adds that PyTorch's own.
bench-layouts: all
	tests/bench/layouts.sh $(B)/gradsum

# A small GPT.
bench-gpt: all
	tests/bench/gpt.sh $(B)

# Synchronisation alone, and training with it. Open MPI is measured beside it where its compiler files are installed.
bench-sync: all $(B)/bench-sync $(if $(shell pkg-config --exists ompi-c 2>/dev/null && echo yes),$(B)/bench-sync-mpi)
	tests/bench/sync.sh $(B)

# A step as `gradsum simulate` predicts it, beside the step that runs over --link take. CASES="4 ring 5ms,20MB/s".
bench-simulate: all
	tests/bench/simulate.sh $(B)/gradsum

# All that is predicted beside what happens: memory, steps of layouts, steps over --link, large clusters.
bench-predict: all $(B)/gradsum-test
	tests/bench/predict.sh $(B)

# Tokens a second of generate beside PyTorch's. TORCH=/path/to/python measures another PyTorch than Debian's.
TORCH = /usr/bin/python3
bench-generate: all
	for threads in 1 2; do $(TORCH) -B tests/torch/generate.py $(B)/gradsum --threads $$threads || exit 1; done
	for threads in 1 2; do $(TORCH) -B tests/torch/generate.py $(B)/gradsum --threads $$threads --layers 12 \
	    --heads 12 --width 768 --context 128 --vocabulary 50257 --length 40 || exit 1; done

# What train --log costs.
bench-log: all
	tests/bench/log.sh $(B)/gradsum

$(B)/bench-sgemm $(B)/bench-sync: $(B)/bench-%: $(B)/tests/bench/%.o $(B)/libgradsum.a
	$(LINK)

$(B)/bench-sync-mpi: tests/bench/sync_mpi.c
	@echo "LINK $@"
	@$(CC) -std=c11 $(FLAGS) $(DEFINES) $(shell pkg-config --cflags ompi-c) -o $@ $< $(shell pkg-config --libs ompi-c)

-include $(wildcard $(B)/tests/bench/*.d)
