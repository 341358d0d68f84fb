package guard

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Instance is an instance that a provider has listed.
type Instance struct {
	// Cluster is the cluster of the Machine for which it was made; Token is the token of that Machine, or of the object behind it.
	Cluster string `json:"cluster"`
	Token   string `json:"token"`
	// ProviderID and Name are the provider's.
	ProviderID string `json:"providerID"`
	Name       string `json:"name,omitempty"`
	// Leaving: the provider is deleting it.
	Leaving bool `json:"-"`
}

// instanceKey identifies an instance of a Driver while it exists and its provider ID keeps its form.
type instanceKey struct{ Cluster, Token, ProviderID string }

// key returns the key of an instance.
func (i Instance) key() instanceKey { return instanceKey{i.Cluster, i.Token, i.ProviderID} }

// Owner is a possible owner of an instance: a Machine, or an object behind one, such as an InfraMachine.
type Owner struct {
	// UID is the token of its instance.
	UID types.UID
	// Cluster is its cluster. Name and ProviderID are its own; ProviderID may be empty.
	Cluster, Name, ProviderID string
	Created                   time.Time
}

// OrphanLimits define when an instance counts as an orphan that may be deleted. The zero value has the defaults.
type OrphanLimits struct {
	// Confirmations is how many passes must have found no Machine, Spacing the minimum time between two of them, and Age the minimum age of
	// the first one. Defaults 3, 5 minutes and 30 minutes.
	Confirmations int
	Spacing, Age  time.Duration
	// PerPass is the maximum number of deletions in one pass. Default 1.
	PerPass int
	// StartDelay is the time after the start of the process in which nothing is confirmed. Default 10 minutes.
	StartDelay time.Duration
}

// restoreDelay is the time after a restore of Machines from a backup in which nothing is confirmed.
const restoreDelay = time.Hour

func (l OrphanLimits) withDefaults() OrphanLimits {
	return OrphanLimits{
		Confirmations: cmp.Or(max(l.Confirmations, 0), 3), PerPass: cmp.Or(max(l.PerPass, 0), 1),
		Spacing: cmp.Or(max(l.Spacing, 0), 5*time.Minute), Age: cmp.Or(max(l.Age, 0), 30*time.Minute),
		StartDelay: cmp.Or(max(l.StartDelay, 0), 10*time.Minute),
	}
}

// sighting is the memory of an instance without a Machine.
type sighting struct {
	First         time.Time `json:"since,omitzero"`
	Last          time.Time `json:"-"`
	Confirmations int       `json:"confirmations"`
	// Asked is when orphanPlan.Delete last contained it; zero for never.
	Asked time.Time `json:"-"`
}

// orphanFacts are the inputs of planOrphans. They are not changed.
type orphanFacts struct {
	// Instances are those of the clusters that were listed, read before Owners. Unlisted are the clusters about which nothing is decided, with
	// the reason: their list failed, may be incomplete, or their API server is frozen.
	Instances []Instance
	Unlisted  map[string]string
	// Owners are all Machines of all namespaces, and the objects behind them, as the API server returned them after the instances were listed,
	// whoever reconciles them. Unread: they could not be read.
	Owners []Owner
	Unread bool
	// Frozen: an API server is, or was a moment ago, unreachable.
	Frozen bool
	// Started is when this process began to act.
	Started time.Time
	// Seen is orphanPlan.Seen of the last pass.
	Seen   map[instanceKey]sighting
	Limits OrphanLimits
	Now    time.Time
}

// Orphan is an instance without a Machine.
type Orphan struct {
	Instance
	sighting

	// Waits is why it may not be deleted yet, and is empty when it may. Deleted: its deletion was requested.
	Waits   string `json:"waits,omitempty"`
	Deleted bool   `json:"deleted"`
}

// orphanPlan is the result of planOrphans.
type orphanPlan struct {
	// Orphans are all that were found, in order. Delete are those to delete in this pass, those requested longest ago first, so that an
	// instance that the provider does not delete delays no other.
	Orphans []Orphan
	Delete  []Instance
	// Blocked is why nothing is confirmed in this pass, by cluster; the empty name means all clusters.
	Blocked map[string]string
	// Seen must be remembered for the next pass.
	Seen map[instanceKey]sighting
}

// planOrphans decides which instances have no Machine, and which of them to delete. An instance has a Machine if the Machine has its token,
// its provider ID, the last part of that ID, or its name: a provider may change the form of its IDs, and a Machine that was restored from a
// backup has another UID. A second instance with the token of a Machine has none if the instance that the Machine has recorded is listed
// too: the cloud has made two for one creation. If only its name is that of a Machine whose recorded instance is listed too, it is reported
// but never deleted: it may belong to the Machine before a restore, and its Node may have the name under which the other one would join.
// Instances without a token were not made by a Driver. In doubt nothing is confirmed, because an unreliable count is no evidence, and
// earlier sightings are not changed.
func planOrphans(f orphanFacts) orphanPlan {
	limits := f.Limits.withDefaults()
	p := orphanPlan{Blocked: map[string]string{}, Seen: map[instanceKey]sighting{}}
	all, known := blocked(f, limits), newOwners(f.Owners)
	if all != "" {
		p.Blocked[""] = all
	}
	clusters := map[string][]Instance{}
	for _, i := range f.Instances {
		clusters[i.Cluster] = append(clusters[i.Cluster], i)
	}
	for key, s := range f.Seen { // sightings without a decision are not changed
		if _, undecided := f.Unlisted[key.Cluster]; undecided || all != "" {
			p.Seen[key] = s
		}
	}
	maps.Copy(p.Blocked, f.Unlisted)
	for cluster, instances := range clusters {
		if _, undecided := f.Unlisted[cluster]; undecided {
			continue
		}
		why := cmp.Or(all, known.doubts(cluster, instances, f.Now))
		if why != "" && all == "" {
			p.Blocked[cluster] = why
		}
		p.look(f, limits, known, instances, why)
	}
	slices.SortFunc(p.Orphans, func(a, b Orphan) int {
		return cmp.Or(a.First.Compare(b.First), cmp.Compare(a.Cluster, b.Cluster), cmp.Compare(a.Token, b.Token))
	})
	p.choose(limits.PerPass, f.Now)
	return p
}

// choose selects a limited number of the orphans that are due.
func (p *orphanPlan) choose(limit int, now time.Time) {
	due := slices.DeleteFunc(slices.Clone(p.Orphans), func(o Orphan) bool { return o.Waits != "" })
	slices.SortStableFunc(due, func(a, b Orphan) int { return a.Asked.Compare(b.Asked) })
	for _, o := range due[:min(limit, len(due))] {
		p.Delete = append(p.Delete, o.Instance)
		o.Asked = now
		p.Seen[o.key()] = o.sighting
	}
}

// blocked returns why nothing at all is decided, empty otherwise.
func blocked(f orphanFacts, limits OrphanLimits) string {
	switch {
	case f.Unread:
		return "the Machines could not be read from the API server"
	case len(f.Owners) == 0:
		return "the API server has no Machine at all"
	case f.Frozen:
		return "an API server is, or was a moment ago, unreachable"
	case f.Started.IsZero() || f.Now.Before(f.Started.Add(limits.StartDelay)):
		return fmt.Sprintf("the process has not run for %s yet", limits.StartDelay)
	}
	return ""
}

// look adds the orphans among the instances of one cluster. why is the reason that prevents their confirmation; an instance with a Machine
// counts as owned in any case.
func (p *orphanPlan) look(f orphanFacts, limits OrphanLimits, known owners, instances []Instance, why string) {
	listed := map[instanceKey]bool{}
	for _, i := range instances {
		key := i.key()
		if f.Unread || i.Token == "" || i.Leaving || listed[key] {
			continue
		}
		listed[key] = true
		if owned, doubt := known.have(i, instances); owned {
			delete(p.Seen, key)
			if doubt != "" {
				p.Orphans = append(p.Orphans, Orphan{Instance: i, Waits: doubt})
			}
			continue
		}
		s := f.Seen[key]
		if why == "" {
			s = s.again(f.Now, limits.Spacing)
		}
		if s.Confirmations > 0 {
			p.Seen[key] = s
		}
		p.Orphans = append(p.Orphans, Orphan{Instance: i, sighting: s, Waits: cmp.Or(why, s.waits(f.Now, limits))})
	}
}

// have reports whether an instance has a Machine, and the doubt that a person must check nevertheless.
func (k owners) have(i Instance, instances []Instance) (owned bool, doubt string) {
	token, id, name := k.of(i)
	// The cloud has made two instances for one Machine, which has recorded the other one.
	isSecond := token != nil && id == nil && i.ProviderID != "" && slices.ContainsFunc(instances, func(other Instance) bool {
		return other.Token == i.Token && shareID(token.ProviderID, other.ProviderID)
	})
	if isSecond || token == nil && id == nil && name == nil {
		return false, ""
	}
	if token == nil && id == nil && name.isListed(instances) {
		doubt = fmt.Sprintf("Machine %s of cluster %s has its name, and the instance %s: delete the instance that is not needed",
			name.Name, name.Cluster, name.ProviderID)
	}
	return true, doubt
}

// again returns the sighting after one more pass. If a clock was set back, it begins anew.
func (s sighting) again(now time.Time, spacing time.Duration) sighting {
	if s.Confirmations <= 0 || now.Before(s.Last) || now.Before(s.First) {
		return sighting{First: now, Last: now, Confirmations: 1}
	}
	if now.Sub(s.Last) >= spacing {
		s.Last = now
		s.Confirmations++
	}
	return s
}

// waits returns what a sighting lacks for a deletion, empty for nothing.
func (s sighting) waits(now time.Time, limits OrphanLimits) string {
	if s.Confirmations < limits.Confirmations {
		return fmt.Sprintf("%d of %d confirmations", s.Confirmations, limits.Confirmations)
	}
	if due := s.First.Add(limits.Age); now.Before(due) {
		return "it is watched until " + due.UTC().Format(time.RFC3339)
	}
	return ""
}
