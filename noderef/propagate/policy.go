package propagate

import (
	"regexp"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Policy defines what an owner propagates to its Nodes, and where the Nodes record it. [ClusterAPI] is Cluster API's. The zero Policy
// propagates taints and the additions of a [Desired], and records nothing. It is safe for concurrent use while it is not changed.
type Policy struct {
	// Labels and Annotations select keys of the owner: those with a match of one of the patterns, as in Cluster API's
	// --additional-sync-machine-labels. Anchor the patterns with ^ and $ to match the whole key.
	Labels, Annotations []*regexp.Regexp
	// AnnotationMarks describe the owner on the Node. They are set from the [Owner]. They are not in the ledger, and never propagated from the
	// owner's annotations.
	AnnotationMarks []Mark
	// Ledger records on the Node what came from the owner.
	Ledger Ledger
	// StartupTaints, by key and effect, keep pods off a Node until it has its labels and taints. The same patch removes
	// them. They cannot be desired.
	StartupTaints []corev1.Taint
}

// Ledger names the annotations of a Node that record what came from its owner. Only recorded keys and taints are removed later: with the
// zero Ledger, nothing is removed.
type Ledger struct {
	// Labels and Annotations hold sorted keys, separated by commas.
	Labels, Annotations string
	// Taints holds "key:effect" of the taints with propagation Always, sorted and separated by commas. If the
	// annotation exists, even empty, the Node was initialized.
	Taints string
}

// Mark is an annotation that holds a value of the owner. While the value is empty, the Node does not have the annotation.
type Mark struct {
	Key   string
	Value func(Owner) string
}

// Annotations that Cluster API v1.13 writes to a Node.
const (
	// LabelsFromMachineAnnotation lists the keys of the labels that came from the Machine.
	LabelsFromMachineAnnotation = "cluster.x-k8s.io/labels-from-machine"
	// AnnotationsFromMachineAnnotation lists the keys of the annotations that came from the Machine, without the marks.
	AnnotationsFromMachineAnnotation = "cluster.x-k8s.io/annotations-from-machine"
	// TaintsFromMachineAnnotation lists the taints that came from the Machine with propagation Always. Cluster API
	// writes it with the feature gate MachineTaintPropagation. Rule: Cluster API proposal 20250513.
	TaintsFromMachineAnnotation = "cluster.x-k8s.io/taints-from-machine"

	// ClusterNameAnnotation holds the name of the Cluster.
	ClusterNameAnnotation = "cluster.x-k8s.io/cluster-name"
	// ClusterNamespaceAnnotation holds the namespace of the Cluster and its Machines.
	ClusterNamespaceAnnotation = "cluster.x-k8s.io/cluster-namespace"
	// MachineAnnotation holds the name of the Machine.
	MachineAnnotation = "cluster.x-k8s.io/machine"
	// OwnerKindAnnotation holds the kind of the Machine's controller.
	OwnerKindAnnotation = "cluster.x-k8s.io/owner-kind"
	// OwnerNameAnnotation holds the name of the Machine's controller.
	OwnerNameAnnotation = "cluster.x-k8s.io/owner-name"
)

// InterruptibleLabel is the label of a Node whose instance may be reclaimed by its cloud; its value is empty. It comes
// from the infrastructure, not from the Machine's labels: add it to [Desired.AddLabels].
const InterruptibleLabel = "cluster.x-k8s.io/interruptible"

// The taint that keeps pods off a Node until it has its labels. Bootstrap providers register the Node with it.
const (
	// UninitializedTaintKey is the key of the taint that [ClusterAPI] removes.
	UninitializedTaintKey = "node.cluster.x-k8s.io/uninitialized"
	// UninitializedTaintEffect is its effect. A taint with this key and another effect belongs to another component.
	UninitializedTaintEffect = corev1.TaintEffectNoSchedule
)

// Domains of Cluster API, before the first "/" of a key: one without subdomains, and two with subdomains.
var (
	nodeRole        = regexp.MustCompile(`^node-role\.kubernetes\.io(/|$)`)
	nodeRestriction = regexp.MustCompile(`^([^/]*\.)?node-restriction\.kubernetes\.io(/|$)`)
	ofNode          = regexp.MustCompile(`^([^/]*\.)?node\.cluster\.x-k8s\.io(/|$)`)
)

func selects(patterns []*regexp.Regexp, key string) bool {
	return slices.ContainsFunc(patterns, func(p *regexp.Regexp) bool { return p.MatchString(key) })
}

// ClusterAPI returns Cluster API's policy for a Machine. Labels: node-role.kubernetes.io itself,
// node-restriction.kubernetes.io and node.cluster.x-k8s.io with their subdomains. Annotations: node.cluster.x-k8s.io
// with its subdomains. (Cluster API book, "Metadata propagation".) Add your own patterns to the result. For a pool
// whose Nodes have no Machines, remove the mark of the Machine.
func ClusterAPI() *Policy {
	return &Policy{
		Labels:      []*regexp.Regexp{nodeRole, nodeRestriction, ofNode},
		Annotations: []*regexp.Regexp{ofNode},
		AnnotationMarks: []Mark{
			{ClusterNameAnnotation, func(o Owner) string { return o.Cluster }},
			{ClusterNamespaceAnnotation, func(o Owner) string { return o.Namespace }},
			{MachineAnnotation, func(o Owner) string { return o.Name }},
			{OwnerKindAnnotation, func(o Owner) string { return o.ControllerKind }},
			{OwnerNameAnnotation, func(o Owner) string { return o.ControllerName }},
		},
		Ledger: Ledger{
			Labels:      LabelsFromMachineAnnotation,
			Annotations: AnnotationsFromMachineAnnotation,
			Taints:      TaintsFromMachineAnnotation,
		},
		StartupTaints: []corev1.Taint{{Key: UninitializedTaintKey, Effect: UninitializedTaintEffect}},
	}
}

func marked(marks []Mark, key string) bool {
	return slices.ContainsFunc(marks, func(m Mark) bool { return m.Key == key })
}

func (l *Ledger) keeps(key string) bool {
	return key != "" && (key == l.Labels || key == l.Annotations || key == l.Taints)
}
