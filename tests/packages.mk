# Which Debian packages each target needs, and `make packages`, which runs before anything compiles (packages.sh). `make
# packages GOALS="all test lint"` installs what these targets need; without GOALS it prints the lists.

# ---- libraries and their flags ---------------------------------------------------------------------------------------
LIBRARIES  = OpenCL $(OPENBLAS) libcjson nettle zlib libprotobuf-c libjpeg libpng libpcre2-8
# pkg-config does not know OpenBLAS on Fedora, where the threaded library has this name.
OPENBLAS   = $(shell pkg-config --exists openblas 2>/dev/null && echo openblas)
BLAS_LIBS  = $(if $(OPENBLAS),,-lopenblasp)
# Evaluated only when a compiler runs, so that the same make can install the packages first.
PKG_CFLAGS = $(shell pkg-config --cflags $(LIBRARIES)) $(if $(OPENBLAS),,-I/usr/include/openblas)
PKG_LIBS   = $(shell pkg-config --libs $(LIBRARIES)) $(BLAS_LIBS) -lgloo -lstdc++ -lm -lpthread $(MPI_LIBS)
MPI_CFLAGS = $(shell pkg-config --exists ompi-c 2>/dev/null && echo -DGRADSUM_MPI && pkg-config --cflags ompi-c)
MPI_LIBS   = $(shell pkg-config --exists ompi-c 2>/dev/null && pkg-config --libs ompi-c)

# ---- packages --------------------------------------------------------------------------------------------------------
PACKAGES_BUILD    = gcc g++ libc6-dev pkg-config ocl-icd-opencl-dev opencl-headers libopenblas-pthread-dev libgloo-dev \
                    zlib1g-dev libjpeg-dev libpng-dev libpcre2-dev libcjson-dev nettle-dev \
                    libjs-chart.js libprotobuf-c-dev protobuf-c-compiler pocl-opencl-icd
PACKAGES_test     = libcmocka-dev procps
PACKAGES_oclgrind = oclgrind
PACKAGES_lint     = clang-format clang-tidy cppcheck jq yamllint
PACKAGES_demo     = dataset-fashion-mnist
PACKAGES_interop  = python3-venv python3-jsonschema
PACKAGES_sandbox  = bubblewrap
PACKAGES_text     = jargon-text
PACKAGES_labs     = patch oclgrind libxml2-utils jq $(PACKAGES_sandbox) $(PACKAGES_handout)
PACKAGES_pages    = libcmark-gfm-dev libcmark-gfm-extensions-dev
# The names of the sanitizers' and libFuzzer's packages contain the version of Debian's clang.
PACKAGES_fuzz     = clang $(patsubst clang-%,libclang-rt-%-dev,$(shell apt-cache depends clang 2>/dev/null | \
                    grep -o 'clang-[0-9]*$$'))
PACKAGES_portable = $(PACKAGES_fuzz) gcc-aarch64-linux-gnu g++-aarch64-linux-gnu qemu-user-static python3-venv
# A sealed handout contains objects for these processors; make handout FOR=x86_64 builds those of one.
FOR               = x86_64 aarch64
ELSEWHERE         = $(if $(OPEN),,$(filter-out $(shell uname -m),$(FOR)))
PACKAGES_handout  = $(if $(filter aarch64,$(ELSEWHERE)),gcc-aarch64-linux-gnu libc6-dev-arm64-cross) \
                    $(if $(filter x86_64,$(ELSEWHERE)),gcc-x86-64-linux-gnu libc6-dev-amd64-cross)
PACKAGES_install  = mandoc zsh
PACKAGES_torch    = python3-torch python3-torchvision
PACKAGES_kill     = procps
PACKAGES_net      = iproute2 procps
PACKAGES_browser  = chromium chromium-driver python3-selenium
# Open MPI is optional: it is compiled in where pkg-config finds it, and only the tests try to install it.
PACKAGES_mpi      = libopenmpi-dev openmpi-bin
PACKAGES_engines  = slurm-wlm munge

GOALS    = $(or $(MAKECMDGOALS),all)
PACKAGES = $(PACKAGES_BUILD) $(if $(filter %test test% trials %test.o,$(GOALS)),$(PACKAGES_test)) $(if $(filter handout,$(GOALS)),$(PACKAGES_handout)) \
           $(if $(filter test-oclgrind,$(GOALS)),$(PACKAGES_oclgrind)) $(if $(filter lint lint-all format,$(GOALS)),$(PACKAGES_lint) $(PACKAGES_test)) \
           $(if $(filter lessons-html slides test-browser lint lint-all,$(GOALS)),$(PACKAGES_pages)) \
           $(if $(filter test-labs,$(GOALS)),$(PACKAGES_labs)) $(if $(filter fuzz fuzz-programs,$(GOALS)),$(PACKAGES_fuzz))
OPTIONAL = $(if $(filter demo bench,$(GOALS)),$(PACKAGES_demo)) $(if $(filter %test test%,$(GOALS)),$(PACKAGES_mpi) $(PACKAGES_sandbox) $(PACKAGES_text)) \
           $(if $(filter test-browser,$(GOALS)),$(PACKAGES_browser)) $(if $(filter test-portable,$(GOALS)),$(PACKAGES_portable)) \
           $(if $(filter test-interop,$(GOALS)),$(PACKAGES_interop)) $(if $(filter test-torch,$(GOALS)),$(PACKAGES_torch)) \
           $(if $(filter test-install,$(GOALS)),$(PACKAGES_install)) $(if $(filter test-kill,$(GOALS)),$(PACKAGES_kill)) \
           $(if $(filter test-engines,$(GOALS)),$(PACKAGES_engines)) $(if $(filter test-net,$(GOALS)),$(PACKAGES_net))

# lint, lint-all and format install nothing unless asked: INSTALL=no is their default.
packages:
	@$(if $(filter lint lint-all format,$(MAKECMDGOALS)),INSTALL=$(or $(INSTALL),no) )tests/packages.sh $(if $(filter-out packages,$(GOALS)),,--list "$(PACKAGES) $(PACKAGES_test)" "$(PACKAGES_mpi)") "$(PACKAGES)" "$(OPTIONAL)"
