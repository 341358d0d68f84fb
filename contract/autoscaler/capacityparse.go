package autoscaler

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// What is wanted of a value, and what the autoscaler does without it.
const (
	quantityWanted = `a quantity, as in "4", "500m" or "16Gi"`

	noCapacity = "the autoscaler takes the group for one that cannot be scaled from zero"
	unset      = "the autoscaler takes it for unset"
	dropped    = "the autoscaler drops it without a word"
	noDevices  = "the autoscaler plans without devices"
	believed   = "the autoscaler believes it and plans Nodes that will never be"
)

// maxDevices is how many devices a ResourceSlice may hold; the autoscaler makes one of each without looking.
const maxDevices = 128

// ParseCapacity reads the capacity annotations of a scalable object. Absent and empty annotations say nothing; pods are absent
// then, and DefaultMaxPods comes in with CapacityOf. It is stricter than the autoscaler, which passes over much that it cannot
// read: the error joins one AnnotationError, in the order of their keys, for everything that would be dropped or misread. What
// could be read is returned beside it. The map is neither changed nor kept.
func ParseCapacity(annotations map[string]string) (Capacity, error) {
	capacity, problems := parseCapacity(annotations)
	return capacity, joined(problems)
}

func parseCapacity(annotations map[string]string) (Capacity, []*AnnotationError) {
	p := capacityParser{annotations: annotations, count: map[string]int{}}
	p.quantity(CPUAnnotation, corev1.ResourceCPU)
	p.quantity(MemoryAnnotation, corev1.ResourceMemory)
	p.quantity(EphemeralDiskAnnotation, corev1.ResourceEphemeralStorage)
	p.maxPods()
	p.devices()
	p.labels()
	p.taints()
	p.csiDrivers()
	slices.SortStableFunc(p.problems, func(a, b *AnnotationError) int { return cmp.Compare(a.Key, b.Key) })
	for i, problem := range p.problems {
		last := i == len(p.problems)-1 || p.problems[i+1].Key != problem.Key
		if more := p.count[problem.Key] - maxAlike - 1; last && more > 0 {
			problem.Found += fmt.Sprintf(", and %d more entries that are wrong", more)
		}
	}
	return p.read, p.problems
}

// capacityParser collects what annotations say and what is wrong with them.
type capacityParser struct {
	annotations map[string]string
	read        Capacity
	problems    []*AnnotationError
	// count is how many problems each annotation has, of which only the first ones are kept.
	count map[string]int
}

func (p *capacityParser) wrong(key, found, want, effect string) {
	if p.count[key]++; p.count[key] <= maxAlike+1 {
		p.problems = append(p.problems, &AnnotationError{Key: key, Found: found, Want: want, Effect: effect})
	}
}

func (p *capacityParser) quantity(key string, name corev1.ResourceName) {
	text := p.annotations[key]
	if text == "" {
		return
	}
	quantity, ok := parseQuantity(text)
	switch {
	case !ok:
		p.wrong(key, quoted(text), quantityWanted, noCapacity)
	case quantity.Sign() < 0:
		p.wrong(key, quoted(text), quantityWanted+", above zero", believed)
	case quantity.IsZero():
		p.wrong(key, quoted(text), quantityWanted+", above zero", unset)
	default:
		p.read.Resources = put(p.read.Resources, name, quantity)
	}
}

func (p *capacityParser) maxPods() {
	n, found := p.whole(MaxPodsAnnotation)
	switch {
	case !found:
	case n == 0:
		p.wrong(MaxPodsAnnotation, `"0"`, "a whole number from 1", "the autoscaler takes it for 110")
	default:
		p.read.Resources = put(p.read.Resources, corev1.ResourcePods, *resource.NewQuantity(n, resource.DecimalSI))
	}
}

// whole reads a whole number from 0.
func (p *capacityParser) whole(key string) (n int64, found bool) {
	text := p.annotations[key]
	if text == "" {
		return 0, false
	}
	n, err := strconv.ParseInt(text, 10, 64)
	switch {
	case err != nil:
		p.wrong(key, quoted(text), "a whole number from 0", noCapacity)
	case n < 0:
		p.wrong(key, quoted(text), "a whole number from 0", believed)
	}
	return n, err == nil && n >= 0
}

// devices reads three annotations that only mean something together.
func (p *capacityParser) devices() {
	if gpuType := p.annotations[GPUTypeAnnotation]; extendedResource(gpuType) {
		p.read.GPUType = corev1.ResourceName(gpuType)
	} else if gpuType != "" {
		p.wrong(GPUTypeAnnotation, quoted(gpuType), `the name of an extended resource, as in "nvidia.com/gpu"`, believed)
	}
	if driver := p.annotations[DRADriverAnnotation]; driverName(driver) {
		p.read.DRADriver = driver
	} else if driver != "" {
		p.wrong(DRADriverAnnotation, quoted(driver), `the name of a driver, as in "gpu.example.com"`, believed)
	}
	text := p.annotations[GPUCountAnnotation]
	count, counted := p.whole(GPUCountAnnotation)
	if !counted {
		if text == "" && p.annotations[GPUTypeAnnotation]+p.annotations[DRADriverAnnotation] != "" {
			p.wrong(GPUCountAnnotation, nothing, "how many devices there are, beside their type or driver", noDevices)
		}
		return
	}
	p.read.GPUCount = count
	if count > 0 && p.read.GPUType != "" {
		p.read.Resources = put(p.read.Resources, p.read.GPUType, *resource.NewQuantity(count, resource.DecimalSI))
	}
	switch {
	case count > 0 && p.annotations[GPUTypeAnnotation]+p.annotations[DRADriverAnnotation] == "":
		p.wrong(GPUTypeAnnotation, nothing, "the name of a resource, because there is a count of devices", noDevices)
	case count > maxDevices && p.read.DRADriver != "":
		p.wrong(GPUCountAnnotation, quoted(text), "at most 128, what a ResourceSlice may hold",
			"the autoscaler makes up as many devices in memory")
	}
}

func (p *capacityParser) labels() {
	for _, e := range entries(p.annotations[LabelsAnnotation]) {
		key, value, ok := strings.Cut(e.text, "=")
		_, twice := p.read.Labels[key]
		switch {
		case !ok:
			p.wrong(LabelsAnnotation, e.describe(), "key=value", dropped)
		case !validLabel(key, value):
			p.wrong(LabelsAnnotation, e.describe(), "key=value, a valid label without spaces around it", believed)
		case twice:
			p.wrong(LabelsAnnotation, e.describe(), "every key once", "the autoscaler takes the last")
		default:
			p.read.Labels = put(p.read.Labels, key, value)
		}
	}
}

func (p *capacityParser) taints() {
	seen := map[taintID]bool{}
	for _, e := range entries(p.annotations[TaintsAnnotation]) {
		pair, effect, ok := strings.Cut(e.text, ":")
		key, value, _ := strings.Cut(pair, "=")
		taint := corev1.Taint{Key: key, Value: value, Effect: corev1.TaintEffect(effect)}
		switch want := wrongTaint(taint); {
		case !ok:
			p.wrong(TaintsAnnotation, e.describe(), "key=value:Effect or key:Effect", believed)
		case want != "":
			p.wrong(TaintsAnnotation, e.describe(), want, "the autoscaler drops it, or plans with a taint that cannot be")
		case seen[idOf(taint)]:
			p.wrong(TaintsAnnotation, e.describe(), "every pair of key and effect once", "the autoscaler takes the last")
		default:
			seen[idOf(taint)] = true
			p.read.Taints = append(p.read.Taints, taint)
		}
	}
}

func (p *capacityParser) csiDrivers() {
	seen := map[string]bool{}
	for _, e := range entries(p.annotations[CSIDriverAnnotation]) {
		name, limit, ok := strings.Cut(strings.TrimSpace(e.text), "=")
		name = strings.TrimSpace(name)
		n, err := strconv.ParseInt(strings.TrimSpace(limit), 10, 32)
		switch {
		case !ok || err != nil || n < 0 || name == "":
			p.wrong(CSIDriverAnnotation, e.describe(), "driver=limit, the limit a whole number from 0", dropped)
		case !driverName(name):
			p.wrong(CSIDriverAnnotation, e.describe(), `the name of a driver before the limit, as in "disk.csi.example.com=16"`, believed)
		case seen[name]:
			p.wrong(CSIDriverAnnotation, e.describe(), "every driver once", "the autoscaler lists it twice")
		default:
			seen[name] = true
			p.read.CSIDrivers = append(p.read.CSIDrivers, CSIDriver{Name: name, VolumeLimit: int32(n)})
		}
	}
}
