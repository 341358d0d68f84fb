package e2e_test

import (
	"fmt"
	"slices"
	"time"

	"github.com/machinist-dev/machinist/examples/lab/cluster"
)

// A verdict judges what happened to a MachineDeployment by the audit log of kube-apiserver: it has the invariants of package
// internal/simulation for a real control plane, where no process sees every write at the moment it is made.
//
// The log needs the bodies of writes to pods, nodes, machines and kwokmachines (cluster.Options.AuditObjects). The instances of the
// provider are the Nodes of package examples/manager/kwokdriver.
//
// # What the log does not say
//
// A write that was carried out has no event when the API server is killed before it answers, and one that failed with a timeout may have
// been carried out. Judge is told of the former by Terms.Lost and sees the latter. What may have happened in such a moment is taken for
// granted where it speaks for the programs, and only for the object that it concerns. An object that is in no event is not judged.
//
// Events of one kind are ordered by the resource versions in their answers, as etcd has ordered them; those of different kinds by the
// time at which the API server received the requests, so that a cause is before its effect.

// Terms are what is known beside the log.
type Terms struct {
	// Managers are the users of the managers, those for Nodes among them, and Provider is that of the provider.
	Managers []string
	Provider string
	// Deployment is the name of the MachineDeployment, which names of all that it has made begin with. Desired is how many Machines it
	// has, Surge how many more it may have, and Unavailable how many need not be available.
	Deployment                  string
	Desired, Surge, Unavailable int
	// Apps is how many healthy pods a budget wants, by the label app of the pods.
	Apps map[string]int
	// Lost are the times at which the API server or etcd was killed.
	Lost []time.Time
}

func (t Terms) users() []string { return append(slices.Clone(t.Managers), t.Provider) }

// Broken is an invariant that did not hold.
type Broken struct {
	At              time.Time
	Invariant, What string
}

// String returns the whole in one line.
func (b Broken) String() string {
	return fmt.Sprintf("%s: %s: %s", b.At.Format("15:04:05.000000"), b.Invariant, b.What)
}

// Invariants returns the names of what Judge checks.
func Invariants() []string {
	var names []string
	for _, i := range invariants() {
		names = append(names, i.name)
	}
	return names
}

type invariant struct {
	name  string
	check func(*judge)
}

func invariants() []invariant {
	return []invariant{
		{"there are never two Machines for one slot", oneForEachSlot},
		{"a Machine never has two instances", oneInstance},
		{"there are never more Machines than wanted and surge", notTooMany},
		{"a rollout keeps as many Machines available as it says", floor},
		{"a Machine goes only after its instance", instanceFirst},
		{"a Pod is deleted only after an eviction", evictsOnly},
		{"a Pod is evicted only from the Node of a Machine that is being deleted", evictsOwnPods},
		{"no eviction leaves fewer healthy Pods than their budget wants", keepsBudgets},
		{"an instance goes only after the drain of its Node", drainsFirst},
		{"nothing of another owner is touched", touchesOwn},
	}
}

// judge checks one invariant.
type judge struct {
	*story
	terms Terms
	name  string
	found []Broken
}

func (j *judge) broken(at time.Time, format string, args ...any) {
	j.found = append(j.found, Broken{At: at, Invariant: j.name, What: fmt.Sprintf(format, args...)})
}

// Judge returns what was broken, by time. It changes nothing, and fails for a log that it cannot read.
func Judge(t Terms, events cluster.AuditEvents) ([]Broken, error) {
	s, err := tell(events, t.Lost)
	if err != nil {
		return nil, fmt.Errorf("judge: %w", err)
	}
	j := &judge{story: s, terms: t}
	for _, i := range invariants() {
		j.name = i.name
		i.check(j)
	}
	slices.SortStableFunc(j.found, func(a, b Broken) int { return a.At.Compare(b.At) })
	return j.found, nil
}

// Count is how much of a kind a log has, to see that a verdict is about something.
type Count struct{ Machines, Instances, Pods, Deletions, Evictions, Unsure int }

// Counted counts what Judge judges. Deletions are those of available Machines by managers, and Unsure the writes that may have been carried
// out although they failed.
func Counted(t Terms, events cluster.AuditEvents) (Count, error) {
	s, err := tell(events, t.Lost)
	if err != nil {
		return Count{}, fmt.Errorf("count: %w", err)
	}
	j := &judge{story: s, terms: t}
	c := Count{Machines: len(s.owned())}
	for _, all := range s.instancesOf() {
		c.Instances += len(all)
	}
	for _, m := range s.owned() {
		if n, found := j.deletion(m, t.Managers); found && n > 0 && m.records[n-1].says {
			c.Deletions++
		}
	}
	for _, all := range j.guarded() {
		c.Pods += len(all)
		for _, pod := range all {
			if !j.taken(pod).IsZero() {
				c.Evictions++
			}
		}
	}
	for _, all := range s.unsure {
		c.Unsure += len(all)
	}
	return c, nil
}
