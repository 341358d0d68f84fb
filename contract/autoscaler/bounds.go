package autoscaler

import (
	"strconv"

	"github.com/machinist-dev/machinist/contract"
)

// Bounds are the sizes between which the autoscaler keeps a group.
type Bounds struct {
	// Min and Max are absent when their annotations are. The autoscaler takes an absent one for 0.
	Min, Max contract.Opt[int64]
}

// Scaled reports whether the autoscaler may change the size at all: it skips what has a maximum of 0.
func (b Bounds) Scaled() bool { return b.Max.Or(0) > 0 }

// Contains reports whether a size lies between the bounds.
func (b Bounds) Contains(replicas int64) bool {
	return b.Min.Or(0) <= replicas && replicas <= b.Max.Or(0)
}

// ParseBounds reads the two size annotations as the autoscaler does: whole decimal numbers from 0, absent is 0, and the
// minimum is not above the maximum. The error is an AnnotationError that matches ErrMinSize, ErrMaxSize or ErrMinAboveMax,
// and says what the autoscaler does then: one such object makes it drop every group of the cluster. It keeps nothing.
func (k Keys) ParseBounds(annotations map[string]string) (Bounds, error) {
	bounds, problem := k.orDefault().bounds(annotations)
	if problem != nil {
		return Bounds{}, problem
	}
	return bounds, nil
}

func (k Keys) bounds(annotations map[string]string) (b Bounds, problem *AnnotationError) {
	if b.Min, problem = size(annotations, k.MinSize, ErrMinSize); problem != nil {
		return b, problem
	}
	if b.Max, problem = size(annotations, k.MaxSize, ErrMaxSize); problem != nil {
		return b, problem
	}
	if b.Min.Or(0) <= b.Max.Or(0) {
		return b, nil
	}
	problem = &AnnotationError{Key: k.MaxSize, Found: nothing, Effect: poisonous, err: ErrMinAboveMax,
		Want: "at least the minimum size, " + strconv.FormatInt(b.Min.Or(0), 10)}
	if found, ok := annotations[k.MaxSize]; ok {
		problem.Found = quoted(found)
	}
	return b, problem
}

// poisonous is what one bad object does to all others.
const poisonous = "one such object makes the autoscaler drop every node group of the cluster"

func size(annotations map[string]string, key string, sentinel error) (contract.Opt[int64], *AnnotationError) {
	text, found := annotations[key]
	if !found {
		return contract.Opt[int64]{}, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return contract.Opt[int64]{}, &AnnotationError{Key: key, Found: quoted(text), Want: "a whole number from 0",
			Effect: poisonous, err: sentinel}
	}
	return contract.Some(n), nil
}
