# The entry points of the project; `make` alone prints them.

GO ?= go
STATICCHECK ?= honnef.co/go/tools/cmd/staticcheck@v0.8.2
GOLANGCI ?= github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0

.PHONY: help build test race sim e2e soak differential bench lint fuzz mutate

help: ## print this help
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## build bin/coordd
	$(GO) build -trimpath -o bin/coordd ./cmd/coordd

test: ## go vet, and all tests that need Go only (a few minutes)
	$(GO) vet ./...
	cd test/bench/cbench && $(GO) vet ./...
	$(GO) test ./...

race: ## the same tests with the race detector (longer)
	$(GO) test -race -timeout 30m ./...

sim: ## the cluster in virtual time under faults; SEED=n repeats a run
	$(GO) test -count=1 -v -run TestSimulation ./internal/sim/... $(if $(SEED),-seed=$(SEED))

# The first line runs no test: it says what is missing, or fetches Kafka's jars and compiles the Streams app once.
e2e: ## real processes, real Kafka, real Streams apps (needs JDK 17 and Maven)
	@$(GO) test -tags e2e -count=1 -run '^$$' ./test/e2e
	$(GO) test -tags e2e -count=1 -timeout 60m -v ./test/e2e/...

soak: ## FOR a time (default 10m) coordinators and instances of exactly-once apps are killed, over three upstreams at once; the output is exact
	@$(GO) test -tags e2e -count=1 -run '^$$' ./test/e2e
	$(GO) test -tags e2e -count=1 -timeout 12h -v -run '^TestSoak$$' ./test/e2e -soak $(or $(FOR),10m)

differential: ## COUNT random scripts (default 500) from SEED on, on real Kafka and on coordd, every answer compared
	@$(GO) test -tags e2e -count=1 -run '^$$' ./test/e2e
	$(GO) test -tags e2e -count=1 -timeout 12h -v -run '^TestDifferential$$' ./test/e2e \
		-differential.seed=$(or $(SEED),1) -differential.count=$(or $(COUNT),500)

bench: ## figures beside real Kafka in one run (needs JDK 17 and Maven); SECTION=heartbeats,converge,… (README in test/bench)
	$(GO) run ./test/bench/run --section "$(SECTION)"

fuzz: ## every fuzz target for FUZZTIME (default 20s) each
	@FUZZTIME=$(or $(FUZZTIME),20s) internal/tools/fuzz

mutate: ## remove lines that keep invariants, one at a time, in a copy: does a test notice? (a few minutes)
	$(GO) run ./internal/tools/mutate

lint: ## no marks of a merge, gofmt, go vet, staticcheck, golangci-lint's default set, go mod tidy
	@! git grep -nIE '^(<{7}|>{7}) ' || { echo "marks of a merge are left"; exit 1; }
	@test -z "$$(gofmt -l .)" || { gofmt -l .; echo "not gofmt'ed"; exit 1; }
	$(GO) vet -tags e2e ./...
	cd test/bench/cbench && $(GO) vet ./...
	$(GO) run $(STATICCHECK) -tags e2e ./...
	$(GO) run $(GOLANGCI) run --build-tags e2e ./...
	$(GO) mod tidy -diff
