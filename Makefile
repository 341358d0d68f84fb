# This needs only git, make and Go. Tools are built from source at pinned versions into the user's cache directory, because the
# root's go.mod has only the library's requirements.

SHELL := /bin/sh
.SHELLFLAGS := -eu -c
.DEFAULT_GOAL := help

GO ?= go
# The folder of the tools; the binaries of examples/controlplane are beside them (os.UserCacheDir).
CACHE ?= $(or $(XDG_CACHE_HOME),$(if $(filter Darwin,$(shell uname -s)),$(HOME)/Library/Caches,$(HOME)/.cache))/machinist

GOLANGCI_VERSION := v2.15.0
GOVULNCHECK_VERSION := v1.9.0
# A linter can check code only for the Go release that it was built with and for older ones.
GOLANGCI = $(CACHE)/tools/golangci-lint-$(GOLANGCI_VERSION)-$(shell $(GO) env GOVERSION)/golangci-lint

# It makes the CustomResourceDefinitions and the copies of Go types of examples/manager/api.
CONTROLLERGEN_VERSION := v0.21.0
CONTROLLERGEN = $(CACHE)/tools/controller-gen-$(CONTROLLERGEN_VERSION)-$(shell $(GO) env GOVERSION)/controller-gen
API := examples/manager/api
CRDS := $(API)/crds.yaml
COPIES := $(API)/zz_generated.deepcopy.go

# Nested modules: the go command ignores them in the root.
NESTED := $(patsubst ./%/go.mod,%,$(shell find . -mindepth 2 -name go.mod))

# The module of examples/embed requires a version of the root module that is not published, and has no replace. A copy of its go.mod
# adds the replace. The commands after this variable run in its folder, in the same shell.
MODULE := github.com/machinist-dev/machinist
EMBED := examples/embed
IN_EMBED = dir=$$(mktemp -d); trap 'rm -rf "$$dir"' EXIT; cp $(EMBED)/go.mod $(EMBED)/go.sum "$$dir"; \
	$(GO) mod edit -replace="$(MODULE)=$(CURDIR)" "$$dir/go.mod"; \
	cd $(EMBED); export GOFLAGS="$$($(GO) env GOFLAGS) -modfile=$$dir/go.mod"

# The module with Ignition's parser, which nobody who imports the library needs.
IGNITION := examples/userdata/ignition

# Nested modules that are tested, linted and vetted as they stand. That of the control plane's programs is only built.
TESTED = $(filter-out $(EMBED)% %/bin,$(NESTED))

FUZZTIME ?= 10s
BENCH ?= .
ROUNDS ?= 1
SCENARIO ?=
ARMS ?=
MACHINES ?= 500
SETSIZE ?= 300
ROLLOUTSIZE ?= 200
FLEETSIZE ?= 5000
INSTANCES ?= 1000
EACH_A_MACHINE ?= false
LIMITS ?=
STEADY ?= 0s
SEED ?= 0
SEEDS ?= 1000
export BREAK ?=
ARGS ?=

# All code is pure Go. Only the race detector needs cgo.
export CGO_ENABLED := 0

.PHONY: help
help: ## List the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z0-9-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)


.PHONY: test
test: control-plane ## Unit tests, fake store, one end-to-end test on a real control plane (the first run builds it: a few minutes)
	$(GO) test -timeout 25m ./...
	@echo "test: $(EMBED), the module of another project"; $(IN_EMBED); $(GO) test ./...
	@for module in $(TESTED); do echo "test: $$module"; (cd "$$module"; $(GO) test ./...); done
	@echo "test: first-boot data, by Ignition's own parser"; dir=$$(mktemp -d); trap 'rm -rf "$$dir"' EXIT; \
	$(GO) run ./examples/userdata all "$$dir"; cd $(IGNITION); $(GO) run . "$$dir"/*.ign

.PHONY: e2e
e2e: control-plane ## Scale and chaos on a real control plane: the tests TestE2E... with build tag e2e
	$(GO) test -tags e2e -run '^TestE2E' -timeout 60m -v ./examples/...
	@echo "e2e: $(EMBED), the module of another project"; $(IN_EMBED); $(GO) test -tags e2e -run '^TestE2E' -timeout 10m -v ./...
	@echo "e2e: $(EMBED) with HEAD as go get delivers it"; cd $(EMBED)/published; $(GO) run . -- $(GO) test ./...

.PHONY: race
race: ## The tests of make test with the race detector, if there is a C compiler
	@cc=$$($(GO) env CC); \
	if ! printf '#include <pthread.h>\n#include <stdlib.h>\nint main(void) { return 0; }\n' | $$cc -x c -o /dev/null - >/dev/null 2>&1; then \
		echo "race: skipped: no C compiler (tried $$cc), and the race detector needs one"; \
	else \
		$(MAKE) control-plane; \
		CGO_ENABLED=1 $(GO) test -race -timeout 25m ./...; \
		for module in $(TESTED); do (cd "$$module"; CGO_ENABLED=1 $(GO) test -race ./...); done; \
		$(IN_EMBED); CGO_ENABLED=1 $(GO) test -race ./...; \
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

.PHONY: bench-set
bench-set: control-plane ## One MachineSet scaled up and down side by side with Cluster API on a real control plane (SETSIZE=300, ROUNDS, ARMS=ours,capi)
	$(GO) run ./examples/controlplane/setbench --machines $(SETSIZE) --rounds $(ROUNDS) --arms '$(ARMS)'

.PHONY: bench-health
bench-health: control-plane ## A tenth of a MachineSet replaced by a health check side by side with Cluster API on a real control plane (SETSIZE=300, ROUNDS, ARMS=ours,capi)
	$(GO) run ./examples/controlplane/setbench --health --machines $(SETSIZE) --rounds $(ROUNDS) --arms '$(ARMS)'

.PHONY: bench-rollout
bench-rollout: control-plane ## One plan for 10,000 Machines, and one rollout side by side with Cluster API on a real control plane (ROLLOUTSIZE=200, ROUNDS, ARMS=ours,capi)
	$(GO) test -run '^$$' -bench Plan10000 -benchmem ./machineset/rollout
	$(GO) run ./examples/controlplane/setbench --rollout --machines $(ROLLOUTSIZE) --rounds $(ROUNDS) --arms '$(ARMS)'

.PHONY: bench-fleet
bench-fleet: control-plane ## Ten MachineDeployments, one rolled out: cost per Machine at 500 side by side with Cluster API, and of ours at FLEETSIZE=5000
	$(GO) run ./examples/controlplane/setbench --fleet --machines 500 --arms '$(ARMS)'
	$(GO) run ./examples/controlplane/setbench --fleet --machines $(FLEETSIZE) --arms ours

.PHONY: bench-pool
bench-pool: control-plane ## A pool of instances side by side with Cluster API on a real control plane (INSTANCES=1000, EACH_A_MACHINE=true, ARMS=ours,capi)
	$(GO) run ./examples/controlplane/poolbench --instances $(INSTANCES) --machines=$(EACH_A_MACHINE) --arms '$(ARMS)'

.PHONY: fuzz
fuzz: ## Every fuzz target for a short while (FUZZTIME=10s)
	@grep -roE --include='*_test.go' '^func Fuzz[A-Za-z0-9_]*' . | sed 's/:func /:/' | sort | \
	while IFS=: read -r file name; do \
		echo "fuzz: $$name in $$(dirname "$$file") for $(FUZZTIME)"; \
		$(GO) test -run '^$$' -fuzz "^$$name$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 20x "$$(dirname "$$file")"; \
	done

.PHONY: simulate
simulate: ## Seeded histories with faults, on all cores, with a table of what was seen (SEEDS=1000, SEED=0, ARGS=-shrink=0)
	GOGC=400 $(GO) test -count=1 -timeout 0 -run '^Test(NoHistoryBreaksAnInvariant|AnOperatorOfAnotherKindIsSimulated)$$' -v ./fake/simulation -seed $(SEED) -seeds $(SEEDS) $(ARGS)

.PHONY: calibrate
calibrate: ## How many histories it takes to find each planted defect, at most (SEEDS=1000)
	@dir=$$(mktemp -d); trap 'rm -rf "$$dir"' EXIT; tar -cf - --exclude=./.git . | tar -xf - -C "$$dir"; cd "$$dir"; \
	for defect in fake/simulation/testdata/defects/*.patch; do \
		patch -s -p1 < "$$defect"; \
		found=$$(GOGC=400 $(GO) test -count=1 -timeout 0 -run '^TestNoHistoryBreaksAnInvariant$$' ./fake/simulation -seeds $(SEEDS) -shrink 0 | \
			grep -E 'histories; run|broken:' | sed 's/^ *//; s/.*go:[0-9]*: //; s/ run one with.*//' | tr '\n' ' '); \
		patch -s -R -p1 < "$$defect"; \
		echo "$$(basename "$$defect" .patch): $${found:-NOT FOUND in $(SEEDS) histories}"; \
	done

.PHONY: mutate
mutate: ## Change the code in small ways and list the changes that no test detects (ARGS="--sample 100 machine", ARGS=--help)
	$(GO) run ./examples/mutate $(ARGS)

.PHONY: skew
skew: ## Build and test a copy against the newest released Kubernetes and controller-runtime
	@echo "skew: $(EMBED) against the pinned ones"; $(IN_EMBED); $(GO) vet ./...; $(GO) test ./...
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
	$(GO) test -skip '^TestREADMEIsCurrent$$' -timeout 20m ./...; : the README names the pinned versions; \
	cd $(EMBED); \
	$(GO) mod edit -replace="$(MODULE)=$$dir"; $(GO) mod tidy; \
	echo "skew: $(EMBED) against"; \
	$(GO) list -m -f '{{.Path}} {{.Version}}' sigs.k8s.io/controller-runtime k8s.io/api k8s.io/apimachinery k8s.io/client-go; \
	$(GO) vet ./...; \
	$(GO) test ./...


# vuln is no part of CI: a new entry of the database must not break a commit that was good, and CI does not reach it.
.PHONY: vuln
vuln: ## Known vulnerabilities in what is linked, by govulncheck, where its database can be reached
	@if ! out=$$($(GO) run golang.org/x/vuln/cmd/govulncheck@$(GOVULNCHECK_VERSION) ./... 2>&1); then \
		echo "$$out"; \
		case "$$out" in *"fetching vulnerabilities"*) echo "vuln: the database cannot be reached from here: nothing was checked";; *) exit 1;; esac; \
	else echo "$$out"; fi

.PHONY: lint
lint: $(GOLANGCI) ## golangci-lint with .golangci.yml (the first run builds it: a few minutes)
	"$(GOLANGCI)" run ./...
	@dir=$$(mktemp -d); trap 'rm -rf "$$dir"' EXIT; export GOWORK="$$dir/go.work"; cd $(EMBED); `# the linter does not know -modfile`\
	$(GO) work init .; $(GO) work edit -replace="$(MODULE)=$(CURDIR)"; "$(GOLANGCI)" run ./...
	@cd $(EMBED)/published; "$(GOLANGCI)" run ./...
	@for module in $(TESTED); do (cd "$$module"; "$(GOLANGCI)" run ./...); done

$(GOLANGCI):
	@echo "lint: building golangci-lint $(GOLANGCI_VERSION); this happens once and takes a few minutes"
	GOBIN="$(@D)" $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_VERSION)

.PHONY: verify
verify: $(CONTROLLERGEN) ## Formatting, go.mod, generated files and go vet
	@unformatted=$$("$$($(GO) env GOROOT)/bin/gofmt" -l $$(find . -name '*.go' -not -path './.git/*')); \
	if [ -n "$$unformatted" ]; then echo "verify: run gofmt -w on:"; echo "$$unformatted"; exit 1; fi
	$(GO) mod tidy -diff
	@dir=$$(mktemp -d); trap 'rm -rf "$$dir"' EXIT; \
	"$(CONTROLLERGEN)" crd object paths=./$(API) output:crd:stdout output:object:dir="$$dir" >"$$dir/crds.yaml"; \
	for file in $(CRDS) $(COPIES); do \
		diff -u "$$file" "$$dir/$${file##*/}" || { echo "verify: $$file is old: run make generate"; exit 1; }; \
	done
	$(GO) vet ./...
	$(GO) vet -tags e2e ./...
	$(GO) test -count=1 -run '^(TestREADME|TestDocumentation|TestExportedAPI)' ./contract ./machine ./examples/quickstart \
		./examples/manager ./examples/manager/options
	@echo "verify: $(EMBED)"; $(IN_EMBED); $(GO) mod tidy -diff; $(GO) vet ./...; $(GO) vet -tags e2e ./...
	@for module in $(filter-out $(EMBED),$(NESTED)); do \
		echo "verify: $$module"; \
		(cd "$$module" && $(GO) mod tidy -diff && $(GO) list -mod=readonly -deps ./... >/dev/null); \
	done
	@for module in $(TESTED); do (cd "$$module"; $(GO) vet ./...); done

.PHONY: verify-userdata
verify-userdata: ## First-boot data by the tools that read it: cloud-init, shellcheck, a scratch root (needs root; installs both tools with apt-get)
	@missing=; for tool in cloud-init shellcheck; do command -v $$tool >/dev/null || missing="$$missing $$tool"; done; \
	if [ -z "$$missing" ]; then exit 0; fi; \
	if [ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then \
		echo "verify-userdata: missing:$$missing; install that, or run this as root where apt-get is"; exit 1; \
	fi; \
	export DEBIAN_FRONTEND=noninteractive; \
	apt-get update -qq; apt-get install -qq --no-install-recommends --yes $$missing >/dev/null
	$(GO) run ./examples/userdata verify

.PHONY: generate
generate: $(CONTROLLERGEN) ## Write the generated parts of README.md and of package comments, new exports, and the manager's CRDs and pages
	$(GO) test -count=1 -run '^(TestREADMEIsCurrent|TestDocumentationIsCurrent|TestExportedAPIIsPromised)$$' ./contract -update
	$(GO) test -count=1 -run '^TestREADMEPictureIsCurrent$$' ./examples/quickstart -update
	@new=$$(mktemp); trap 'rm -f "$$new"' EXIT; \
	"$(CONTROLLERGEN)" crd object paths=./$(API) output:crd:stdout >"$$new"; cat "$$new" >$(CRDS)
	$(GO) test -count=1 -run '^TestOurCRDsDifferFromClusterAPIsInThisOnly$$' ./$(API) -update
	$(GO) test -count=1 -run '^TestDocumentationOf(Flags|Metrics)IsCurrent$$' ./examples/manager/options ./examples/manager -update

$(CONTROLLERGEN):
	@echo "controller-gen: building $(CONTROLLERGEN_VERSION); this happens once and takes two minutes"
	GOBIN="$(@D)" $(GO) install sigs.k8s.io/controller-tools/cmd/controller-gen@$(CONTROLLERGEN_VERSION)

.PHONY: api
api: ## Record removed or changed exports in testdata/api.txt, and in CHANGELOG.md what callers do now (BREAK="...")
	$(if $(strip $(BREAK)),,$(error BREAK="what callers do now" is missing; additions need only make generate))
	$(GO) test -count=1 -run '^TestExportedAPIIsPromised$$' ./contract -update -broken "$$BREAK"


.PHONY: control-plane
control-plane: ## Build the control plane's programs for tests and examples/controlplane (a few minutes, once)
	$(GO) run ./examples/controlplane build

.PHONY: demo
demo: control-plane ## The reference operator at work on a real control plane, and what to try next (Ctrl-C ends it)
	$(GO) run ./examples/controlplane demo

.PHONY: embed-run
embed-run: ## Run examples/embed, an operator of another project, with the working tree (ARGS=--help)
	@$(IN_EMBED); $(GO) run . $(ARGS)

.PHONY: embed-tidy
embed-tidy: ## Write go.mod and go.sum of examples/embed
	@$(IN_EMBED); $(GO) mod tidy; $(GO) mod edit -dropreplace="$(MODULE)" "$$dir/go.mod"; cp "$$dir/go.mod" "$$dir/go.sum" .

.PHONY: clean
clean: ## Remove the binaries in the user's cache directory
	rm -rf "$(CACHE)/tools" "$(CACHE)/controlplane"
	$(GO) clean -testcache
