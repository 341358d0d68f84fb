package guard

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// owners finds the owner of an instance.
type owners struct {
	byToken, byID, byName map[string]*Owner
	count                 map[string]int
}

func newOwners(all []Owner) owners {
	o := owners{map[string]*Owner{}, map[string]*Owner{}, map[string]*Owner{}, map[string]int{}}
	for i := range all {
		one := &all[i]
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

// idKeys returns the keys of a provider ID: itself, and its last part without regard to case, which is stable when a provider changes the
// form of its IDs. Two instances with the same last part both count as owned, which is the safe side.
func idKeys(id string) []string {
	id = strings.Trim(id, "/ \t")
	last := strings.ToLower(id[strings.LastIndexAny(id, "/:")+1:])
	if last == "" {
		return nil
	}
	return []string{id, "last:" + last}
}

// of returns the owners of an instance by its token, its provider ID and its name, nil if there is none.
func (o owners) of(i Instance) (token, id, name *Owner) {
	for _, key := range idKeys(i.ProviderID) {
		id = cmp.Or(id, o.byID[key])
	}
	return o.byToken[i.Token], id, o.byName[i.Name]
}

// isListed reports whether the instance that an owner has recorded is listed.
func (o *Owner) isListed(instances []Instance) bool {
	return slices.ContainsFunc(instances, func(i Instance) bool { return shareID(o.ProviderID, i.ProviderID) })
}

// shareID reports whether two provider IDs may identify one instance.
func shareID(a, b string) bool {
	for _, key := range idKeys(a) {
		if slices.Contains(idKeys(b), key) {
			return true
		}
	}
	return false
}

// doubts returns why the list of Machines proves nothing about the instances of a cluster, empty when it does: there are no Machines, more
// instances lack one than have one, or the Machines were restored a moment ago and others may follow.
func (o owners) doubts(cluster string, instances []Instance, now time.Time) string {
	if o.count[cluster] == 0 {
		return "the cluster has no Machine"
	}
	with, without := 0, 0
	for _, i := range instances {
		token, id, name := o.of(i)
		switch {
		case i.Leaving || i.Token == "":
		case token != nil || id != nil || name != nil:
			with++
		default:
			without++
		}
		if token == nil && id != nil && now.Before(id.Created.Add(restoreDelay)) {
			return fmt.Sprintf("Machine %s was restored less than %s ago: others may follow", id.Name, restoreDelay)
		}
	}
	if without > with {
		return fmt.Sprintf("%d instances have no Machine and %d have one: the Machines may be incomplete", without, with)
	}
	return ""
}
