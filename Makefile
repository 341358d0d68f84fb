# Nothing but git, make and Go is needed. Tools are built from source at pinned versions into the user's cache directory:
# the root's go.mod holds the library's requirements only.

SHELL := /bin/sh
.SHELLFLAGS := -eu -c
.DEFAULT_GOAL := help

GO ?= go
# Where tools go; examples/controlplane keeps its binaries beside them (os.UserCacheDir).
CACHE ?= $(or $(XDG_CACHE_HOME),$(if $(filter Darwin,$(shell uname -s)),$(HOME)/Library/Caches,$(HOME)/.cache))/machinist

GOLANGCI_VERSION := v2.15.0
# A linter can only check code for the Go release that it was built with, or older ones.
GOLANGCI = $(CACHE)/tools/golangci-lint-$(GOLANGCI_VERSION)-$(shell $(GO) env GOVERSION)/golangci-lint

# Modules of their own below the root: the go command does not see them from here.
NESTED := $(patsubst %/go.mod,%,$(shell find examples -name go.mod))

FUZZTIME ?= 10s
BENCH ?= .
ROUNDS ?= 1
SCENARIO ?=
ARMS ?=
MACHINES ?= 500
LIMITS ?=
STEADY ?= 0s
export BREAK ?=

# Everything is pure Go. Only the race detector needs cgo.
export CGO_ENABLED := 0

.PHONY: help
help: ## List the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z0-9-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)


.PHONY: test
test: control-plane ## Units, fake store, one end-to-end pass on a real control plane (first run builds it: a few minutes)
	$(GO) test -timeout 25m ./...

.PHONY: e2e
e2e: control-plane ## Scale and chaos on a real control plane: the tests TestE2E... with build tag e2e
	$(GO) test -tags e2e -run '^TestE2E' -timeout 45m -v ./examples/...

.PHONY: race
race: ## Everything that make test runs, under the race detector, where there is a C compiler
	@cc=$$($(GO) env CC); \
	if ! printf '#include <pthread.h>\n#include <stdlib.h>\nint main(void) { return 0; }\n' | $$cc -x c -o /dev/null - >/dev/null 2>&1; then \
		echo "race: skipped: no C compiler (tried $$cc), and the race detector needs one"; \
	else \
		$(MAKE) control-plane; \
		CGO_ENABLED=1 $(GO) test -race -timeout 25m ./...; \
	fi

.PHONY: bench
bench: ## Benchmarks with allocations (BENCH=regexp picks some)
	$(GO) test -run '^$$' -bench '$(BENCH)' -benchmem -timeout 30m ./...

.PHONY: bench-drain
bench-drain: control-plane ## Drains side by side with kubectl and Cluster API on a real control plane (ROUNDS=3 prints medians; SCENARIO=1,4, ARMS=ours,kubectl)
	$(GO) run ./examples/controlplane/drainbench --rounds $(ROUNDS) --scenario '$(SCENARIO)' --arms '$(ARMS)'

.PHONY: bench-machine
bench-machine: control-plane ## Machines side by side with Cluster API on a real control plane (MACHINES=500, LIMITS=default,off, ARMS=ours,capi, ROUNDS, STEADY=5m)
	$(GO) run ./examples/controlplane/machinebench --machines $(MACHINES) --rounds $(ROUNDS) --arms '$(ARMS)' --limits '$(LIMITS)' --steady $(STEADY)

.PHONY: fuzz
fuzz: ## Every fuzz target for a short while (FUZZTIME=10s)
	@grep -roE --include='*_test.go' '^func Fuzz[A-Za-z0-9_]*' . | sed 's/:func /:/' | sort | \
	while IFS=: read -r file name; do \
		echo "fuzz: $$name in $$(dirname "$$file") for $(FUZZTIME)"; \
		$(GO) test -run '^$$' -fuzz "^$$name$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 20x "$$(dirname "$$file")"; \
	done

.PHONY: skew
skew: ## Build and test a copy against the newest released Kubernetes and controller-runtime
	@dir=$$(mktemp -d); trap 'rm -rf "$$dir"' EXIT; \
	tar -cf - --exclude=./.git . | tar -xf - -C "$$dir"; \
	cd "$$dir"; \
	$(GO) get sigs.k8s.io/controller-runtime@latest; \
	minor=$$($(GO) list -m -f '{{.Version}}' k8s.io/client-go | cut -d. -f1,2); \
	$(GO) get "k8s.io/api@$$minor" "k8s.io/apimachinery@$$minor" "k8s.io/client-go@$$minor" "k8s.io/kubectl@$$minor"; \
	$(GO) mod tidy; \
	echo "skew: against"; \
	$(GO) list -m -f '{{.Path}} {{.Version}}' sigs.k8s.io/controller-runtime k8s.io/api k8s.io/apimachinery k8s.io/client-go; \
	$(GO) vet ./...; \
	$(GO) test -skip '^TestREADMEIsCurrent$$' -timeout 20m ./... # the README names the pinned versions


.PHONY: lint
lint: $(GOLANGCI) ## golangci-lint as .golangci.yml says (first run builds it: a few minutes)
	"$(GOLANGCI)" run ./...

$(GOLANGCI):
	@echo "lint: building golangci-lint $(GOLANGCI_VERSION); this happens once and takes a few minutes"
	GOBIN="$(@D)" $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_VERSION)

.PHONY: verify
verify: ## Formatting, go.mod, generated files and go vet
	@unformatted=$$("$$($(GO) env GOROOT)/bin/gofmt" -l $$(find . -name '*.go' -not -path './.git/*')); \
	if [ -n "$$unformatted" ]; then echo "verify: run gofmt -w on:"; echo "$$unformatted"; exit 1; fi
	$(GO) mod tidy -diff
	$(GO) vet ./...
	$(GO) vet -tags e2e ./...
	$(GO) test -count=1 -run '^(TestREADME|TestDocumentation|TestExportedAPI)' ./contract ./machine
	@for module in $(NESTED); do \
		echo "verify: $$module"; \
		(cd "$$module" && $(GO) mod tidy -diff && $(GO) list -mod=readonly -deps ./... >/dev/null); \
	done

.PHONY: generate
generate: ## Write the generated parts of README.md and of package comments, and what packages export in addition
	$(GO) test -count=1 -run '^TestDocumentationIsCurrent$$' ./machine -update
	$(GO) test -count=1 -run '^(TestREADMEIsCurrent|TestDocumentationIsCurrent|TestExportedAPIIsPromised)$$' ./contract -update

.PHONY: api
api: ## Break promises: remove or change exports in testdata/api.txt and say in CHANGELOG.md what callers do now (BREAK="...")
	$(if $(strip $(BREAK)),,$(error BREAK="what callers do now" is missing; additions need only make generate))
	$(GO) test -count=1 -run '^TestExportedAPIIsPromised$$' ./contract -update -broken "$$BREAK"


.PHONY: control-plane
control-plane: ## Build the control plane's programs for tests and examples/controlplane (a few minutes, once)
	$(GO) run ./examples/controlplane build

.PHONY: clean
clean: ## Remove what was built into the user's cache directory
	rm -rf "$(CACHE)/tools" "$(CACHE)/controlplane"
	$(GO) clean -testcache
