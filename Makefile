# Thin: the real build is CMake's. `make demo` and `make test` install what is missing on a Debian machine.
.PHONY: help demo test test-long build install bench bench-node bench-vs-kafka format clean

help:
	@echo "make demo       build, load a real file into three nodes, kill leaders and all in the middle, compare every replica"
	@echo "make test       every check that fits into 20 minutes"
	@echo "make test-long  what takes hours: fuzzers, crashes, seeds, valgrind"
	@echo "make build      release programs at build/bin/steled, build/bin/stele and build/bin/stele-sim"
	@echo "make install    programs, library, header, manual pages and completion under PREFIX (/usr/local)"
	@echo "make bench      measurements"
	@echo "make bench-node   what a node costs, and what its clients notice of cold reads"
	@echo "make bench-vs-kafka   one node beside a node of Kafka, and three beside three"

build:
	@tools/deps.sh build
	@cmake --preset release >/dev/null
	@cmake --build build/release
	@mkdir -p build/bin
	@cp -f build/release/bin/steled build/release/bin/stele build/release/bin/stele-sim build/bin/

# PREFIX=... chooses where; DESTDIR=... puts all under a directory first, as packages want it.
PREFIX ?= /usr/local
install: build
	@cmake --install build/release --prefix "$(PREFIX)"

demo: build
	@deploy/demo.sh

test:
	@tools/deps.sh test
	@tools/test.sh

test-long:
	@tools/deps.sh long
	@tools/test-long.sh

bench: build
	@bench/run.sh

bench-node: build
	@bench/node.sh
	@bench/cold-reads.sh

bench-vs-kafka: build
	@bench/vs-kafka.sh
	@bench/vs-kafka-three.sh

format:
	@git ls-files '*.c' '*.h' | xargs clang-format -i

clean:
	@rm -rf build
