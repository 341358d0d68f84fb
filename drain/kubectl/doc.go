// Package kubectl adapts k8s.io/kubectl/pkg/drain: its filters become rules of package drain, and its Helper gets a
// constructor.
//
// # Usage
//
// kubectl's own filters need no kubectl: [drain.KubectlRules] has them as plain rules. Who uses only those should not import
// this package: it adds 150 packages and 2 to 4 MB to a program that links client-go already, 26 MB to one that does not.
// [Rules] is for those who have additional filters of type PodFilter, and [FromFilter] puts a single one among other rules:
//
//	planner := drain.Planner{Rules: kubectl.Rules(kubectl.Options{
//		KubectlOptions:    drain.KubectlOptions{IgnoreAllDaemonSets: true, DeleteEmptyDirData: true, Force: true},
//		AdditionalFilters: []kubectldrain.PodFilter{skipMyOwnPods},
//	})}
//
// [NewHelper] is for those who need kubectl's blocking loop itself. Its methods GetPodsForDeletion and
// DeleteOrEvictPods can be called without importing k8s.io/kubectl.
//
// # Guarantees
//
//   - Random pods under random options get the same verdict, with the same words and in the same order, from [Rules] and
//     from kubectl v0.36 (and v0.37): the tests of this package compare them. The exceptions are listed at [drain.KubectlRules]: a
//     terminating pod is waited for, and warnings add up. A finished pod of a DaemonSet is evicted as kubectl does it,
//     unless JudgeFinishedDaemonSetPods is set.
//   - A filter's error is never overwritten by a later filter, and an unknown status never evicts.
//   - No rule calls an API.
//   - [NewHelper] sets every field of Helper whose zero value does harm, or says what it cannot accept; a test fails when a
//     new version of kubectl has a field that the constructor does not know.
//
// # Limits
//
// Filters take pods by value, so every pod is copied (not deeply) per filter and plan. A Helper blocks its caller until all
// pods are gone, polls each of them every second, evicts by name without the pod's UID (so a StatefulSet's pod that was
// created again on another Node may be evicted there, k/k #141607), and tells errors apart by their text only; no
// constructor can change that. Package drain/runner is the way out.
package kubectl
