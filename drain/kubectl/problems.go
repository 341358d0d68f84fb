package kubectl

import (
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
)

// problems lists everything that a Helper must not be built with.
func (o *HelperOptions) problems() []error {
	errs := append(o.problemsOfTime(), o.problemsOfDryRun())
	if _, err := labels.Parse(o.PodSelector); err != nil {
		errs = append(errs, fmt.Errorf("PodSelector: %w", err))
	}
	if o.ChunkSize < 0 {
		errs = append(errs, fmt.Errorf("ChunkSize must not be negative, got %d", o.ChunkSize))
	}
	for i, f := range o.AdditionalFilters {
		if f == nil {
			errs = append(errs, fmt.Errorf("AdditionalFilters[%d] is nil: leave it out", i))
		}
	}
	return errs
}

func (o *HelperOptions) problemsOfTime() []error {
	var errs []error
	switch {
	case o.Timeout < 0:
		errs = append(errs, fmt.Errorf("the Timeout must not be negative, got %s", o.Timeout))
	case o.Timeout == 0 && !o.NoTimeout:
		errs = append(errs, errors.New(
			"a Timeout is required: without one a drain behind a closed budget never ends; set NoTimeout if that is meant"))
	case o.Timeout > 0 && o.NoTimeout:
		errs = append(errs, fmt.Errorf("both Timeout %s and NoTimeout are set: choose one", o.Timeout))
	}
	if grace := o.GracePeriodSeconds; grace != nil {
		switch {
		case *grace < 0:
			errs = append(errs, fmt.Errorf("GracePeriodSeconds must not be negative, got %d: leave it nil for each pod's own", *grace))
		case *grace == 0 && !o.AllowImmediateKill:
			errs = append(errs, errors.New(
				"GracePeriodSeconds 0 kills pods without letting them end, and may let two of a StatefulSet run at once; "+
					"set AllowImmediateKill if that is meant"))
		}
	}
	if delay := o.EvictErrorRetryDelay; delay != 0 && delay < minRetryDelay {
		errs = append(errs, fmt.Errorf(
			"EvictErrorRetryDelay %s would flood the API server while a budget is closed: use at least %s, or 0 for %s",
			delay, minRetryDelay, defaultRetryDelay))
	}
	if wait := o.SkipWaitForDeleteTimeout; wait < 0 || wait%time.Second != 0 {
		errs = append(errs, fmt.Errorf("SkipWaitForDeleteTimeout must be whole seconds and not negative, got %s", wait))
	}
	return errs
}

func (o *HelperOptions) problemsOfDryRun() error {
	switch o.DryRunStrategy {
	case cmdutil.DryRunNone:
		return nil
	case cmdutil.DryRunServer:
		if o.DisableEviction {
			return errors.New("DryRunStrategy server with DisableEviction waits for ever for pods that are not deleted (before kubectl v0.37): " +
				"leave one of them out")
		}
		return nil
	case cmdutil.DryRunClient:
		return errors.New("DryRunStrategy client is known to the kubectl command only: the library would really evict; use server, or package " +
			"drain's Plan, which sends nothing")
	default:
		return fmt.Errorf("DryRunStrategy %d is unknown: use none or server", o.DryRunStrategy)
	}
}
