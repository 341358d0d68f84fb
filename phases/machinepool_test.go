package phases_test

import (
	"testing"

	"github.com/machinist-dev/machinist/phases"
)

func TestThePhaseOfAPoolFollowsFromFacts(t *testing.T) {
	ready := phases.PoolFacts{BootstrapReady: true, InfrastructureReady: true, HasNode: true, Sized: true}
	with := func(change func(*phases.PoolFacts)) phases.PoolFacts {
		f := ready
		change(&f)
		return f
	}
	for name, tc := range map[string]struct {
		facts phases.PoolFacts
		want  phases.Phase
	}{
		"nothing yet":                         {phases.PoolFacts{Sized: true, TooFew: true}, phases.Pending},
		"bootstrap data":                      {phases.PoolFacts{Sized: true, TooFew: true, BootstrapReady: true}, phases.Provisioning},
		"a Node before its group is reported": {phases.PoolFacts{BootstrapReady: true, HasNode: true, Sized: true}, phases.Provisioned},
		"the number is not set":               {with(func(f *phases.PoolFacts) { f.Sized = false }), phases.Provisioned},
		"as many as wanted":                   {ready, phases.Running},
		"scaled to zero":                      {with(func(f *phases.PoolFacts) { f.HasNode = false }), phases.Running},
		"too few":                             {with(func(f *phases.PoolFacts) { f.TooFew = true }), phases.ScalingUp},
		"too many":                            {with(func(f *phases.PoolFacts) { f.TooMany = true }), phases.ScalingDown},
		"too few, managed elsewhere": {with(func(f *phases.PoolFacts) { f.TooFew, f.ManagedElsewhere = true, true }),
			phases.Scaling},
		"too many, managed elsewhere": {with(func(f *phases.PoolFacts) { f.TooMany, f.ManagedElsewhere = true, true }),
			phases.Scaling},
		"as many as wanted, managed elsewhere":       {with(func(f *phases.PoolFacts) { f.ManagedElsewhere = true }), phases.Running},
		"a failure":                                  {with(func(f *phases.PoolFacts) { f.Failed = true }), phases.Failed},
		"deleted while failed":                       {with(func(f *phases.PoolFacts) { f.Failed, f.Deleting = true, true }), phases.Deleting},
		"too few before the group is provisioned":    {phases.PoolFacts{Sized: true, TooFew: true, HasNode: true}, phases.Provisioned},
		"managed elsewhere before anything is there": {phases.PoolFacts{Sized: true, TooFew: true, ManagedElsewhere: true}, phases.Pending},
	} {
		t.Run(name, func(t *testing.T) {
			if got := phases.MachinePool().Compute(tc.facts).Phase; got != tc.want {
				t.Errorf("want %s, got %s", tc.want, got)
			}
		})
	}
}
