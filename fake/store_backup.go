package fake

import (
	"cmp"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Backup is the content of a Store at one time. Later changes do not affect it.
type Backup struct {
	kinds   map[schema.GroupKind]bool
	records []*record
}

// Backup returns the current objects of some kinds; without kinds, all objects. Like a snapshot of etcd, it includes UIDs, status, owners
// and deletion timestamps.
func (s *Store) Backup(kinds ...schema.GroupKind) Backup {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(kinds) == 0 {
		kinds = slices.Collect(maps.Keys(s.registry.kinds))
	}
	b := Backup{kinds: map[schema.GroupKind]bool{}}
	for _, gk := range kinds {
		if k := s.registry.kinds[gk]; k != nil && !b.kinds[gk] {
			b.kinds[gk] = true
			b.records = append(b.records, k.all("")...)
		}
	}
	slices.SortFunc(b.records, compareRecords)
	return b
}

// Restore replaces the objects of the kinds of a backup with those in the backup, in new versions, like a restored snapshot of etcd with a
// raised revision (etcdutl snapshot restore --bump-revision): objects that were created since are gone, whatever their finalizers, and
// deleted ones exist again. Watches continue.
func (s *Store) Restore(b Backup) {
	s.mu.Lock()
	defer s.mu.Unlock()
	had := map[objectKey]bool{}
	for _, rec := range b.records {
		had[keyOf(rec)] = true
	}
	var later []*record
	for gk := range b.kinds {
		if k := s.registry.kinds[gk]; k != nil {
			later = append(later, slices.DeleteFunc(k.all(""), func(rec *record) bool { return had[keyOf(rec)] })...)
		}
	}
	slices.SortFunc(later, compareRecords)
	for _, rec := range later {
		s.remove(rec)
	}
	for _, rec := range b.records {
		if now := s.lookup(keyOf(rec)); now == nil || now.version != rec.version {
			_, _ = s.store(rec.kind, rec.key, rec.copy()) // it was encoded before
		}
	}
}

// compareRecords orders by kind and key.
func compareRecords(a, b *record) int {
	return cmp.Or(cmp.Compare(a.kind.String(), b.kind.String()), compareKeys(a.key, b.key))
}
