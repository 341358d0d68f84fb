package safety

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// owners finds what an instance belongs to.
type owners struct {
	byToken, byID, byName map[string]Owner
	count                 map[string]int
}

func newOwners(all []Owner) owners {
	o := owners{map[string]Owner{}, map[string]Owner{}, map[string]Owner{}, map[string]int{}}
	for _, one := range all {
		o.byToken[string(one.UID)] = one
		o.byName[one.Name] = one
		o.count[one.Cluster]++
		for _, id := range idKeys(one.ProviderID) {
			o.byID[id] = one
		}
	}
	delete(o.byToken, "")
	delete(o.byName, "")
	return o
}

// idKeys are what a provider ID is found by: itself, and its last part without regard to case, which stays when a provider changes the form
// of its IDs. Two instances with the same last part both count as owned: that is the safe side.
func idKeys(id string) []string {
	id = strings.Trim(id, "/ \t")
	last := strings.ToLower(id[strings.LastIndexAny(id, "/:")+1:])
	if last == "" {
		return nil
	}
	return []string{id, "last:" + last}
}

// has reports whether an instance belongs to an owner.
func (o owners) has(i Instance) bool {
	_, token := o.byToken[i.Token]
	_, name := o.byName[i.Name]
	_, id := o.byIDOf(i)
	return token || name || id
}

func (o owners) byIDOf(i Instance) (Owner, bool) {
	for _, id := range idKeys(i.ProviderID) {
		if one, found := o.byID[id]; found {
			return one, true
		}
	}
	return Owner{}, false
}

// namesake says what an instance shares with an owner when that is the name only, and the owner has another instance in the list; empty
// otherwise.
func (o owners) namesake(i Instance, instances []Instance) string {
	one, found := o.byName[i.Name]
	_, token := o.byToken[i.Token]
	_, id := o.byIDOf(i)
	if !found || token || id || !slices.ContainsFunc(instances, func(other Instance) bool {
		return shareID(one.ProviderID, other.ProviderID)
	}) {
		return ""
	}
	return fmt.Sprintf("Machine %s of cluster %s has its name, and the instance %s: delete the instance that is not needed",
		one.Name, one.Cluster, one.ProviderID)
}

// recorded are the tokens of which the instance is among some that its owner has recorded.
func (o owners) recorded(instances []Instance) map[string]bool {
	all := map[string]bool{}
	for _, i := range instances {
		if one, found := o.byToken[i.Token]; found && shareID(one.ProviderID, i.ProviderID) {
			all[i.Token] = true
		}
	}
	return all
}

// isSecond reports whether an instance has the token of an owner that has recorded another one, and nothing else has recorded it.
func (o owners) isSecond(i Instance) bool {
	one, found := o.byToken[i.Token]
	_, id := o.byIDOf(i)
	return found && one.ProviderID != "" && i.ProviderID != "" && !id
}

// shareID reports whether two provider IDs may be of one instance.
func shareID(a, b string) bool {
	for _, key := range idKeys(a) {
		if slices.Contains(idKeys(b), key) {
			return true
		}
	}
	return false
}

// doubts is why the list of Machines says nothing about the instances of a cluster, empty when it does: there are no Machines, fewer
// instances have one than not, or the Machines were restored a moment ago and others may follow.
func (o owners) doubts(cluster string, instances []Instance, now time.Time) string {
	if o.count[cluster] == 0 {
		return "the cluster has no Machine"
	}
	with, without := 0, 0
	for _, i := range instances {
		switch {
		case i.Leaving || i.Token == "":
		case o.has(i):
			with++
		default:
			without++
		}
		if _, token := o.byToken[i.Token]; token {
			continue
		}
		if restored, found := o.byIDOf(i); found && now.Before(restored.Created.Add(restoreDelay)) {
			return fmt.Sprintf("Machine %s was restored less than %s ago: others may follow", restored.Name, restoreDelay)
		}
	}
	if without > with {
		return fmt.Sprintf("%d instances have no Machine and %d have one: the Machines may be incomplete", without, with)
	}
	return ""
}
