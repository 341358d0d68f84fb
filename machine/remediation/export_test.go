package remediation

import "k8s.io/apimachinery/pkg/types"

// Remembers reports whether anything is remembered about a check.
func (r *Reconciler) Remembers(key types.NamespacedName) bool { return r.memory.Known(key) != nil }
