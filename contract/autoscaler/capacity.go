package autoscaler

import (
	"errors"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Capacity is what a new Node of a group will look like, as far as the autoscaler asks.
type Capacity struct {
	// Resources are what the Node offers: cpu, memory, ephemeral-storage, pods, and devices by the name of their resource.
	Resources corev1.ResourceList
	// GPUType is the resource of the devices in the annotations, and GPUCount how many there are. With both, Resources has
	// them too; a count without a type is for DRADriver.
	GPUType  corev1.ResourceName
	GPUCount int64
	// Labels are the labels of the Node.
	Labels map[string]string
	// Taints are the taints of the Node, without two of the same key and effect.
	Taints []corev1.Taint
	// CSIDrivers are the installed volume drivers, without two of the same name.
	CSIDrivers []CSIDriver
	// DRADriver names the driver of a ResourceSlice with GPUCount devices; empty is none.
	DRADriver string
	// Architecture and OperatingSystem become the labels kubernetes.io/arch and kubernetes.io/os, unless Labels has them.
	Architecture, OperatingSystem string
}

// CSIDriver is a volume driver and how many of its volumes a Node takes.
type CSIDriver struct {
	Name string
	// VolumeLimit is at least 0, which is no limit.
	VolumeLimit int32
}

// ScalesFromZero reports whether the autoscaler can tell whether a pod would fit on a new Node: it needs cpu and memory.
func (c Capacity) ScalesFromZero() bool { return len(c.missing()) == 0 }

// missing names what is needed and not known.
func (c Capacity) missing() []string {
	var missing []string
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		if _, known := c.Resources[name]; !known {
			missing = append(missing, name.String())
		}
	}
	return missing
}

// Over returns what is known when both speak and c wins: resource by resource, label by label, taint by key and effect, and
// the rest as a whole. Neither is changed, and the result shares nothing with them.
func (c Capacity) Over(base Capacity) Capacity {
	merged := base.clone()
	for name, quantity := range c.Resources {
		merged.Resources = put(merged.Resources, name, quantity.DeepCopy())
	}
	for key, value := range c.Labels {
		merged.Labels = put(merged.Labels, key, value)
	}
	merged.Taints = mergedTaints(merged.Taints, c.clone().Taints)
	if len(c.CSIDrivers) > 0 {
		merged.CSIDrivers = slices.Clone(c.CSIDrivers)
	}
	if c.GPUType != "" || c.GPUCount != 0 {
		merged.GPUType, merged.GPUCount = c.GPUType, c.GPUCount
	}
	overwrite(&merged.DRADriver, c.DRADriver)
	overwrite(&merged.Architecture, c.Architecture)
	overwrite(&merged.OperatingSystem, c.OperatingSystem)
	return merged
}

func (c Capacity) clone() Capacity {
	c.Resources = c.Resources.DeepCopy()
	c.Labels = maps.Clone(c.Labels)
	taints := slices.Clone(c.Taints)
	for i := range taints {
		taints[i] = *taints[i].DeepCopy()
	}
	c.Taints = taints
	c.CSIDrivers = slices.Clone(c.CSIDrivers)
	return c
}

func put[M ~map[K]V, K comparable, V any](into M, key K, value V) M {
	if into == nil {
		into = M{}
	}
	into[key] = value
	return into
}

func overwrite(into *string, value string) {
	if value != "" {
		*into = value
	}
}

// taintID is what tells taints of a Node apart.
type taintID struct {
	key    string
	effect corev1.TaintEffect
}

func idOf(taint corev1.Taint) taintID { return taintID{taint.Key, taint.Effect} }

// mergedTaints adds taints to a list that is the caller's, in the place of those with the same key and effect.
func mergedTaints(base, over []corev1.Taint) []corev1.Taint {
	place := make(map[taintID]int, len(base)+len(over))
	for i, taint := range base {
		place[idOf(taint)] = i
	}
	for _, taint := range over {
		i, taken := place[idOf(taint)]
		if taken {
			base[i] = taint
			continue
		}
		place[idOf(taint)] = len(base)
		base = append(base, taint)
	}
	return base
}

// CapacityOf puts together what the autoscaler knows about a new Node of a group: the template's status, the labels and taints
// that the group gives its Machines, and above them the group's annotations. template is the infrastructure template that the
// group refers to, nil when it is not known.
//
// Pods are those of MaxPodsAnnotation or DefaultMaxPods; the template's are not asked for. Of the labels for Machines only
// those with ManagedLabel reach Nodes; versions of the autoscaler look for them in spec.template.metadata.labels or in
// spec.template.spec.metadata.labels, and both are read here.
//
// The error joins everything that could not be read, each part matching ErrAnnotation or contract.ErrWrongType; what could be
// read is returned beside it. Neither object is changed or kept.
func CapacityOf(group, template *unstructured.Unstructured) (Capacity, error) {
	annotations, problems := parseCapacity(group.GetAnnotations())
	var fromTemplate Capacity
	var errs []error
	if template != nil {
		var err error
		fromTemplate, err = TemplateCapacity(template)
		errs = append(errs, err)
		delete(fromTemplate.Resources, corev1.ResourcePods)
	}
	fromSpec, err := specCapacity(group)
	if err := errors.Join(err, joined(problems)); err != nil {
		errs = append(errs, describeError(group, err))
	}

	known := annotations.Over(fromSpec.Over(fromTemplate))
	if _, found := known.Resources[corev1.ResourcePods]; !found {
		known.Resources = put(known.Resources, corev1.ResourcePods, *resource.NewQuantity(DefaultMaxPods, resource.DecimalSI))
	}
	return known, errors.Join(errs...)
}
