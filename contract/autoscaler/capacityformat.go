package autoscaler

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// ErrNoAnnotation matches the error about a part of a Capacity that no annotation can say.
var ErrNoAnnotation = errors.New("no annotation says this")

// Annotations writes a capacity as annotations of a scalable object, entries in the order of their names. ParseCapacity reads
// it back equal, with the lists sorted. The error matches ErrNoAnnotation for a resource other than cpu, memory,
// ephemeral-storage, pods and GPUType, and for an architecture or operating system (say those with labels), and ErrAnnotation
// for a value that would not be read back; the annotations of everything else are returned beside it. c is not changed.
func (c Capacity) Annotations() (map[string]string, error) {
	w := capacityWriter{written: map[string]string{}}
	w.resources(c)
	if c.Architecture != "" || c.OperatingSystem != "" {
		w.errs = append(w.errs, fmt.Errorf("%w: architecture %s and operating system %s: use the labels %s and %s", ErrNoAnnotation,
			quoted(c.Architecture), quoted(c.OperatingSystem), corev1.LabelArchStable, corev1.LabelOSStable))
	}
	w.devices(c)
	w.lists(c)
	_, problems := parseCapacity(w.written) // also finds what only is wrong together
	return w.written, errors.Join(append(w.errs, joined(problems))...)
}

// capacityWriter collects annotations and what could not become one.
type capacityWriter struct {
	written map[string]string
	errs    []error
}

func (w *capacityWriter) resources(c Capacity) {
	for _, name := range slices.Sorted(maps.Keys(c.Resources)) {
		quantity := c.Resources[name]
		text := quantity.String()
		switch name {
		case corev1.ResourceCPU:
			w.written[CPUAnnotation] = text
		case corev1.ResourceMemory:
			w.written[MemoryAnnotation] = text
		case corev1.ResourceEphemeralStorage:
			w.written[EphemeralDiskAnnotation] = text
		case corev1.ResourcePods:
			w.written[MaxPodsAnnotation] = wholeText(quantity)
		default:
			if name != c.GPUType || wholeText(quantity) != strconv.FormatInt(c.GPUCount, 10) {
				w.errs = append(w.errs, fmt.Errorf("%w: %s of resource %s", ErrNoAnnotation, text, quoted(name.String())))
			}
		}
	}
}

// wholeText writes a whole number without the suffixes of quantities; 1k is 1000.
func wholeText(quantity resource.Quantity) string {
	if n, ok := quantity.AsInt64(); ok {
		return strconv.FormatInt(n, 10)
	}
	return quantity.String()
}

func (w *capacityWriter) devices(c Capacity) {
	if c.GPUType != "" {
		w.written[GPUTypeAnnotation] = c.GPUType.String()
	}
	if c.DRADriver != "" {
		w.written[DRADriverAnnotation] = c.DRADriver
	}
	if c.GPUCount != 0 || c.GPUType != "" || c.DRADriver != "" {
		w.written[GPUCountAnnotation] = strconv.FormatInt(c.GPUCount, 10)
	}
}

// lists checks entries before they are joined: a comma in one would make two of it.
func (w *capacityWriter) lists(c Capacity) {
	var labels, taints, drivers []string
	for _, key := range slices.Sorted(maps.Keys(c.Labels)) {
		pair := key + "=" + c.Labels[key]
		w.entry(LabelsAnnotation, &labels, pair, validLabel(key, c.Labels[key]), "a valid label")
	}
	for _, taint := range c.Taints {
		want := wrongTaint(taint)
		w.entry(TaintsAnnotation, &taints, taint.ToString(), want == "", want)
	}
	for _, driver := range c.CSIDrivers {
		pair := driver.Name + "=" + strconv.FormatInt(int64(driver.VolumeLimit), 10)
		w.entry(CSIDriverAnnotation, &drivers, pair, driverName(driver.Name) && driver.VolumeLimit >= 0,
			"a driver's name and a limit from 0")
	}
	w.list(LabelsAnnotation, labels)
	w.list(TaintsAnnotation, taints)
	w.list(CSIDriverAnnotation, drivers)
}

func (w *capacityWriter) entry(key string, into *[]string, text string, valid bool, want string) {
	if valid {
		*into = append(*into, text)
		return
	}
	w.errs = append(w.errs, &AnnotationError{Key: key, Found: quoted(text), Want: want, Effect: "it is not written"})
}

func (w *capacityWriter) list(key string, entries []string) {
	if len(entries) > 0 {
		slices.Sort(entries)
		w.written[key] = strings.Join(entries, ",")
	}
}
