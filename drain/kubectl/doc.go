// Package kubectl adapts k8s.io/kubectl/pkg/drain: its filters become rules of package drain, and its Helper gets a constructor.
//
// # Usage
//
// [drain.KubectlRules] has kubectl's own filters as rules, without kubectl. A program that needs only those should not import this package:
// it adds 150 packages and 2 to 4 MB to a program that links client-go, 26 MB to one that does not. [Rules] adds filters of type PodFilter:
//
//	planner := drain.Planner{Rules: kubectl.Rules(kubectl.Options{
//	  KubectlOptions:    drain.KubectlOptions{IgnoreAllDaemonSets: true, DeleteEmptyDirData: true, Force: true},
//	  AdditionalFilters: []kubectldrain.PodFilter{skipMyOwnPods},
//	})}
//
// [NewHelper] returns kubectl's own blocking loop. Its methods GetPodsForDeletion and DeleteOrEvictPods can be called without importing
// k8s.io/kubectl.
//
// # Guarantees
//
//   - [Rules] and kubectl v0.36 (and v0.37) return the same verdicts for random Pods with random options, with the same words and in the
//     same order: the tests of this package compare them. [drain.KubectlRules] lists the exceptions: a terminating Pod is waited for, and
//     warnings are collected. A finished Pod of a DaemonSet is evicted as in kubectl, unless JudgeFinishedDaemonSetPods is set.
//   - A later filter does not overwrite the error of a filter, and a Pod with an unknown status is not evicted.
//   - No rule calls an API.
//   - [NewHelper] sets every field of Helper whose zero value is dangerous, or returns an error; a test fails when a new version of kubectl
//     has a field that the constructor does not handle.
//
// # Limits
//
// Filters take Pods by value, so every Pod is copied (not deeply) per filter and plan. A Helper blocks its caller until all Pods are gone,
// polls each of them every second, and distinguishes errors only by their text. It evicts by name without the UID, so a Pod of a
// StatefulSet that was created again on another Node may be evicted there (k/k #141607). A constructor cannot change that. Package
// drain/runner does not have these limits.
package kubectl
