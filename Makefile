# SPDX-License-Identifier: Apache-2.0
# A thin face over scripts/ and the presets of CMakePresets.json. Needs git and make; the rest is set up on demand.
.DEFAULT_GOAL := help
SHELL := /bin/bash
PREFIX ?= /usr/local
PYTHON := build/venv/bin/python
SETUP := build/.setup-done

.PHONY: help setup build tests test demo check frameworks bench gpu-acceptance torch-tests accuracy abroad tried torch-cuda asan tsan fuzz fmt install wheel tarball deb release clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(SETUP): scripts/setup.sh
	@scripts/setup.sh
	@touch $@

setup: $(SETUP)  ## install what building and testing need (see docs/building.md)

build: $(SETUP)  ## build the library, the analyzer and the simulated device into build/release
	@scripts/build.sh release product

tests: $(SETUP)  ## build what `make build` does, and the tests and benchmarks
	@scripts/build.sh release all

# What only tests need is downloaded while the compilers run.
test: $(SETUP)  ## run every check and test, one line each, and count them
	@{ scripts/torch_cuda.sh --triton --fetch-only || echo "torch-cuda: could not be installed; tests/torch_cuda will be skipped"; } & \
	{ scripts/browser.sh || echo "browser: could not be installed; tests of the HTML report in a browser will be skipped"; } & \
	scripts/build.sh release all; built=$$?; wait; exit $$built
	@scripts/build.sh release all  # with the stubs that the wheel wants
	@$(PYTHON) scripts/run_tests.py

demo: build  ## profile real training scripts, apply the first suggestion, compare (DEVICE=cpu: nothing is downloaded)
	@$(PYTHON) scripts/demo/demo.py $(if $(DEVICE),--device $(DEVICE))

check: build  ## layers, hooks, documents, words, format, lint, and what the built library needs and exports
	@scripts/check_layers.py
	@scripts/check_unused.py --self-test
	@scripts/check_unused.py
	@scripts/check_left_out.py --self-test
	@scripts/check_left_out.py
	@scripts/document.py --check --gpuwatch build/release/bin/gpuwatch
	@scripts/check_words.py
	@scripts/check_format.sh
	@scripts/check_lint.py build/release
	@scripts/check_library.sh build/release

frameworks: build  ## train with real frameworks (about 4 GB of packages), write docs/frameworks.md
	@$(PYTHON) scripts/frameworks.py

bench: tests  ## measure what gpuwatch costs here, write docs/performance.md
	@$(PYTHON) scripts/bench.py

gpu-acceptance: build  ## ask a machine with a GPU what CI cannot answer, write docs/gpu-results
	@scripts/gpu_acceptance.sh
	@scripts/gpu_acceptance.sh --render

torch-tests: build  ## PyTorch's own DataLoader tests, with and without injection (FILE=test_dataloader.py, PYTHON=...)
	@$(PYTHON) scripts/torch_tests.py $(if $(FILE),--file $(FILE)) --python $(PYTHON)

accuracy: build  ## compare predicted with achieved step times and write docs/accuracy.md
	@$(PYTHON) scripts/accuracy.py

abroad: build  ## run programs that no rule was developed on (4 GB of packages), write docs/abroad.md
	@scripts/abroad_setup.sh
	@scripts/torch_cuda.sh
	@cmake --build build/release --target slow_fs
	@$(PYTHON) scripts/abroad.py

tried: build  ## let gpuwatch try settings on programs of `make abroad`, write docs/trying.md
	@scripts/abroad_setup.sh
	@scripts/torch_cuda.sh
	@$(PYTHON) scripts/tried.py

torch-cuda: build  ## fetch the CUDA build of PyTorch (526 MB), to train on the simulated device
	@scripts/torch_cuda.sh

demo-picture: build  ## run the demo and draw docs/demo.svg, the picture in README.md
	@$(PYTHON) scripts/demo/picture.py

asan: $(SETUP)  ## unit tests under the address and undefined-behavior sanitizers
	@scripts/build.sh asan
	@$(PYTHON) scripts/run_tests.py --preset asan --only ctest

tsan: $(SETUP)  ## unit tests under the thread sanitizer
	@scripts/build.sh tsan
	@$(PYTHON) scripts/run_tests.py --preset tsan --only ctest

fuzz: build  ## analyze 2000 damaged traces of real runs (build/asan: GPUWATCH_BUILD=build/asan)
	@$(PYTHON) scripts/fuzz_traces.py

fmt: $(SETUP)  ## format the C++ sources
	@scripts/check_format.sh --fix

install: build  ## install into PREFIX (/usr/local), below DESTDIR if set
	@cmake --install build/release --prefix $(PREFIX)

wheel: build  ## build the wheel for every Linux with glibc 2.28 or newer into dist/ (106 MB to download, once)
	@scripts/build_wheel.sh wheel

tarball: build  ## the same as a tarball that works wherever it is unpacked
	@scripts/build_wheel.sh tarball

deb: build  ## build a Debian package for this release of Debian or Ubuntu into dist/
	@cd build/release && cpack -G DEB -B ../../dist

release: build  ## check version, CHANGELOG.md and checkout, then build wheel and tarball
	@$(PYTHON) scripts/release.py

clean:  ## remove what was built, keep what was set up
	@rm -rf build/release build/asan build/tsan build/demo-data
