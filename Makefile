# TenantLane. "make help" lists the targets.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

GO ?= go
TOOLS := $(CURDIR)/.cache/bin
GOLANGCI_VERSION := v2.15.0
GOLANGCI := $(TOOLS)/golangci-lint-$(GOLANGCI_VERSION)

# The race detector and librdkafka need a C compiler; without one the tests
# run without them.
CGO := $(shell test "$$($(GO) env CGO_ENABLED)" = 1 && command -v "$$($(GO) env CC)" >/dev/null && echo yes)
RACE ?= $(if $(CGO),-race)
FUZZTIME ?= 10s
SOAK_ROUNDS ?= 10
SOAK_CHECKS ?= 20000
SOAK_STEPS ?= 10000000
SOAK_STATES ?= 20000000

PACKAGES = $(shell $(GO) list ./... | grep -v /integration)

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo "  Real Kafka: KAFKA_BROKERS=host:port uses that one, else java and mvn start one."

.PHONY: build
build: ## build ./tenantlane
	$(GO) build -trimpath -o tenantlane ./cmd/tenantlane

.PHONY: test
test: unit integration ## run all tests, with the race detector and a real Kafka where there is one

.PHONY: unit
unit: ## run the tests that need nothing but Go
	$(GO) test $(RACE) $(PACKAGES)
ifneq ($(RACE),)
	$(GO) test -run 'AMillionTenants$$' ./consumer ./consumer/lane # too slow at full size with the race detector
endif

# In a package's own folder "go test" never answers from its cache, and shows
# what the tests print: which broker they ran against.
.PHONY: integration
integration: ## run the integration suite on the embedded broker and on a real Kafka
	cd integration/kafka && $(GO) test $(RACE)
	cd integration && $(GO) test $(RACE) -timeout 15m
ifeq ($(CGO),yes)
	cd integration/clients && $(GO) test
else
	@echo "no C compiler: topics of the Java, sarama and librdkafka clients are not tested"
endif

.PHONY: race
race: ## run the tests that need nothing but Go with the race detector, several times
	$(GO) test -race -count=3 $(PACKAGES)

.PHONY: fuzz
fuzz: ## run every fuzz target for FUZZTIME (10s)
	GO=$(GO) FUZZTIME=$(FUZZTIME) scripts/fuzz

.PHONY: soak
soak: ## search for hours: SOAK_CHECKS property checks each, SOAK_STEPS of lanes, SOAK_STATES of moves, SOAK_ROUNDS of the integration suite
	$(GO) test -race -timeout 0 \
		$$($(GO) list -f '{{.ImportPath}} {{.TestImports}} {{.XTestImports}}' ./... | awk '/pgregory.net\/rapid/ {print $$1}') -args -rapid.checks=$(SOAK_CHECKS)
	$(GO) test -run 'TestWorld$$' -timeout 0 ./consumer/lane -args -world.steps=$(SOAK_STEPS)
	$(GO) test -v -run 'TestExplore$$|TestHistories$$' -timeout 0 ./rebalance/move -args -explore.deep -explore.most=$(SOAK_STATES) -histories=200000
	$(MAKE) fuzz FUZZTIME=10m
	cd integration && TENANTLANE_SOAK=1 $(GO) test $(RACE) -timeout 0 -count=$(SOAK_ROUNDS)

.PHONY: bench
bench: ## run the Go benchmarks once each
	$(GO) test -run '^$$' -bench . -benchmem $(PACKAGES)

.PHONY: cover
cover: ## write coverage.out and show the coverage per package
	$(GO) test -coverprofile=coverage.out -coverpkg=./... $(PACKAGES)
	$(GO) tool cover -func=coverage.out | awk -F '[:\t]+' '{dir=$$1; sub(/\/[^\/]*$$/, "", dir); sum[dir]+=$$NF; n[dir]++} END {for (d in sum) printf "%6.1f%%  %s\n", sum[d]/n[d], d}' | sort -k2

.PHONY: lint
lint: $(GOLANGCI) ## run golangci-lint, built from source on first use
	$(GOLANGCI) run

.PHONY: fmt
fmt: $(GOLANGCI) ## format all files
	$(GOLANGCI) fmt

$(GOLANGCI):
	mkdir -p $(TOOLS)
	GOBIN=$(TOOLS) GOFLAGS= $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_VERSION)
	mv $(TOOLS)/golangci-lint $@

.PHONY: kafka
kafka: ## start a real Kafka and print the KAFKA_BROKERS line (NODES=3, PORT=, DIR= to keep its data)
	$(GO) run ./integration/kafka/foreground -nodes $(or $(NODES),1) -port $(or $(PORT),0) -dir '$(DIR)'

.PHONY: demo
demo: ## run the main job end to end
	$(GO) run ./cmd/tenantlane demo

.PHONY: ci
ci: ## run what CI runs
	bash .ci/run

.PHONY: clean
clean: ## remove what was built and fetched here
	rm -rf .cache tenantlane coverage.out
