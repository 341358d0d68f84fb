package phases

import (
	"errors"
	"fmt"
	"slices"
)

// Phase is the word that a Machine's status shows. Values are wire format.
type Phase string

// Cluster API's phases. Rule: Machine status.phase in cluster.x-k8s.io/v1beta2.
const (
	Pending      Phase = "Pending"
	Provisioning Phase = "Provisioning"
	Provisioned  Phase = "Provisioned"
	Running      Phase = "Running"
	Deleting     Phase = "Deleting"
)

// Gate is what a Machine waits for before it can leave its phase.
type Gate string

// The gates of Cluster API's life, in order; GateNone at the end of it.
const (
	GateNone           Gate = ""
	GateBootstrapData  Gate = "BootstrapData"
	GateInfrastructure Gate = "Infrastructure"
	GateNode           Gate = "Node"
	GateDeletion       Gate = "Deletion"
)

// Facts are what a phase depends on.
type Facts struct {
	// Deleting: deletion was asked for.
	Deleting bool
	// BootstrapReady: the bootstrap data exists, or the user gave it.
	BootstrapReady bool
	// InfrastructureReady: the provider has reported the machine as provisioned, at least once.
	InfrastructureReady bool
	// HasProviderID: the Machine knows the provider ID of its machine.
	HasProviderID bool
	// HasNode: a Node was matched.
	HasNode bool
}

// Decision is a phase, why it holds, and what is waited for.
type Decision struct {
	// Phase is never empty in a table made by New.
	Phase Phase
	// Reason is one CamelCase word, for events and logs.
	Reason string
	// Waiting is GateNone when the Machine has arrived.
	Waiting Gate
}

// Rule gives its Decision when When holds.
type Rule struct {
	// Decision needs a Phase.
	Decision
	// When must be pure; nil always holds.
	When func(Facts) bool
}

// Table is an ordered list of rules, made by New. It is immutable and safe for concurrent use. The zero Table has no rules
// and no phases.
type Table struct{ rules []Rule }

// ErrNoDefault matches the error of New for a table that leaves some facts without a phase.
var ErrNoDefault = errors.New("the last rule must always hold (When nil)")

// ErrShadowed matches the error of New for a rule behind one that always holds: it could never be reached.
var ErrShadowed = errors.New("always holds, so the rules behind it can never be reached")

// New returns a table of the given rules, of which it keeps a copy. Every rule has a phase; the last rule, and only the
// last, has a nil When. The error joins all that is wrong and matches ErrNoDefault or ErrShadowed.
func New(rules ...Rule) (*Table, error) {
	var errs []error
	for i, r := range rules {
		if r.Phase == "" {
			errs = append(errs, fmt.Errorf("rule %d has no phase", i))
		}
		if r.When == nil && i < len(rules)-1 {
			errs = append(errs, fmt.Errorf("rule %d (%s) %w", i, r.Phase, ErrShadowed))
		}
	}
	if len(rules) == 0 || rules[len(rules)-1].When != nil {
		errs = append(errs, ErrNoDefault)
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return &Table{rules: slices.Clone(rules)}, nil
}

// Compute returns the decision of the first rule that holds, for a table of New always one with a phase. It allocates
// nothing unless a rule does.
func (t *Table) Compute(f Facts) Decision {
	for i := range t.rules {
		if t.rules[i].When == nil || t.rules[i].When(f) {
			return t.rules[i].Decision
		}
	}
	return Decision{}
}

// Rules returns a copy of the rules, for an embedder to insert its own and make a dialect with New.
func (t *Table) Rules() []Rule { return slices.Clone(t.rules) }
