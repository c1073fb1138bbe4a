# Shortcuts only: each target is a command that can be typed by hand.
# nginx is in /usr/sbin, which is not on everybody's path.
export PATH := $(PATH):/usr/sbin

.PHONY: run check test test-install unit build deb fuzz lint gen bench soak

# The main job on the in-memory store: limits of limits/examples/quickstart.toml on 127.0.0.1:7429.
run:
	go run ./cmd/authz serve --limits limits/examples/quickstart.toml

# Before each commit: build, lint and unit tests.
check:
	.ci/install
	go build ./...
	$(MAKE) lint
	go test ./cmd/... ./internal/... ./limits/... ./nginx/... ./redisscripts/...

# Everything but the package: installs what the tests need, then lint, all tests, and a few seconds of each fuzz target.
test:
	.ci/install
	$(MAKE) lint unit fuzz

unit:
	go test -race -timeout 20m ./...
	cd tests/bench && go test ./...

# The Debian package: built, installed, upgraded and purged. Wants root, and a machine without authz.
test-install:
	.ci/install
	go test -race -timeout 10m -tags install ./tests/install

# A static binary, bin/authz. VERSION=1.2.3 is what it says of itself; two builds of one commit are the same bytes.
VERSION ?= 0.0.0~dev
BIN ?= bin
build:
	CGO_ENABLED=0 go build -trimpath -ldflags '-s -w -X authz/internal/buildinfo.release=$(VERSION)' -o $(BIN)/authz ./cmd/authz

# bin/authz_VERSION_amd64.deb (GOARCH=arm64 for others), by nfpm.
deb: build
	BIN=$(BIN) deploy/deb/build $(VERSION)

fuzz:
	.ci/fuzz 20000x

lint:
	.ci/lint

# Composes redisscripts/v1 from redisscripts/src, and writes limits/zones.txt of the time zones that this Go has.
gen:
	go generate ./...

# Side by side with what authz could be replaced by, into docs/performance.md; leave the machine alone
# meanwhile. ARGS="-quick" is a minute and no more than a hint.
bench:
	cd tests/bench && go run . -docs ../../docs $(ARGS)

# A flood over each fault of Redis and the way to it, a flood of costly requests over a Redis that is well, and then 10
# minutes of load, or SOAK=1h, while one fault after the other happens. All are held to their times: leave the machine
# alone meanwhile. The same faults in the same order again: SEED=... as it was printed.
soak:
	SOAK=$(or $(SOAK),10m) AUTHZ_TIMES=1 go test -timeout 0 -count=1 -v -run '^(TestSoak|TestAFloodOverADeadRedis.*|TestAFloodOfCostly.*)$$' ./tests/faults
