package contract_test

import (
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/machinist-dev/machinist/contract"
)

// stored is an object in deletion with annotations.
func stored(deleting time.Time, annotations map[string]string) *contract.Metadata {
	return &contract.Metadata{Deleting: deleting, Annotations: annotations}
}

// store applies the changes that store a record.
func store(d contract.Deletion, annotations map[string]string, elsewhere ...string) map[string]string {
	after := maps.Clone(annotations)
	if after == nil {
		after = map[string]string{}
	}
	for key, c := range d.Changes(annotations, elsewhere...) {
		if text, set := c.Value(); set {
			after[key] = text
		} else {
			delete(after, key)
		}
	}
	return after
}

func TestDeletion(t *testing.T) {
	const drain, volumes, hooks = contract.StageDrain, contract.StageVolumes, contract.StagePreTerminateHooks
	deleting, now := noon.Local(), noon.Add(time.Minute)
	full := func() contract.Deletion {
		d := contract.DeletionOf(stored(deleting, nil), nil, now)
		require.True(t, d.Begin(drain, now.Add(time.Millisecond)))
		require.False(t, d.Begin(drain, now.Add(time.Hour)), "a stage begins once")
		require.True(t, d.End(drain, "n", now.Add(time.Second)))
		require.False(t, d.End(drain, "n", now.Add(time.Hour)), "a stage ends once for a Node")
		require.True(t, d.End(volumes, "n", now.Add(time.Second)))
		return d
	}
	const text = `{"deletion":"2026-03-01T12:00:00Z","node":"n","stages":{` +
		`"drain":{"start":"2026-03-01T12:01:00Z","end":"2026-03-01T12:01:01Z"},"volumes":{"end":"2026-03-01T12:01:01Z"}}}`

	t.Run("what is stored is read back", func(t *testing.T) {
		annotations := store(full(), map[string]string{"other": "kept"})
		require.Equal(t, map[string]string{"other": "kept", contract.DeletionAnnotation: text}, annotations)
		require.Equal(t, full(), contract.DeletionOf(stored(deleting, annotations), nil, now))
		require.Empty(t, full().Changes(annotations), "it is stored")
	})
	t.Run("an object that stores starts elsewhere does not store them twice", func(t *testing.T) {
		d := full()
		require.True(t, d.Begin(hooks, now))
		annotations := store(d, nil, drain, volumes)
		require.JSONEq(t, `{"deletion":"2026-03-01T12:00:00Z","node":"n","stages":{"drain":{"end":"2026-03-01T12:01:01Z"},`+
			`"pre-terminate-hooks":{"start":"2026-03-01T12:01:00Z"},"volumes":{"end":"2026-03-01T12:01:01Z"}}}`,
			annotations[contract.DeletionAnnotation])
		state := contract.MachineState{Metadata: *stored(deleting, annotations), DrainStarted: now}
		require.Equal(t, d, state.Deletion(now))
		begun := contract.DeletionOf(stored(deleting, nil), nil, now)
		begun.Begin(drain, now)
		require.Empty(t, begun.Changes(nil, drain))
	})
	t.Run("a record of another deletion is none, and goes", func(t *testing.T) {
		for name, m := range map[string]*contract.Metadata{
			"later":              stored(deleting.Add(time.Second), map[string]string{contract.DeletionAnnotation: text}),
			"the object lives":   stored(time.Time{}, map[string]string{contract.DeletionAnnotation: text}),
			"a text of a person": stored(deleting, map[string]string{contract.DeletionAnnotation: "soon"}),
		} {
			d := contract.DeletionOf(m, nil, now)
			require.Empty(t, d.Stages, name)
			require.Empty(t, d.Node, name)
			require.Empty(t, store(d, m.Annotations), name)
		}
	})
	t.Run("a start of Cluster API counts unless it is of an older deletion", func(t *testing.T) {
		recent := deleting.Add(-contract.ClockTolerance)
		for start, want := range map[time.Time]time.Time{recent: recent.UTC(), recent.Add(-time.Second): {}} {
			state := contract.MachineState{Metadata: *stored(deleting, nil), VolumeDetachStarted: start}
			require.Equal(t, want, state.Deletion(now).Stages[volumes].Start)
		}
		state := contract.MachineState{Metadata: *stored(deleting, map[string]string{contract.DeletionAnnotation: text}), DrainStarted: noon}
		require.Equal(t, now, state.Deletion(now).Stages[drain].Start, "the record counts before it")
	})
	t.Run("another Node has not been drained", func(t *testing.T) {
		d := full()
		require.True(t, d.HasEnded(drain, "n"))
		require.False(t, d.HasEnded(drain, "other"))
		require.False(t, d.HasEnded(hooks, "n"))
		require.False(t, (&contract.Deletion{}).HasEnded(drain, ""))
		require.True(t, (&contract.Deletion{}).End(hooks, "", now), "a stage that is about no Node")
		require.True(t, d.End(drain, "other", now))
		require.Equal(t, []bool{true, false, false}, []bool{d.HasEnded(drain, "other"), d.HasEnded(drain, "n"), d.HasEnded(volumes, "other")})
	})
	t.Run("wrong clocks", func(t *testing.T) {
		behind := contract.DeletionOf(stored(deleting, nil), nil, deleting.Add(-time.Hour))
		behind.Begin(drain, deleting.Add(-time.Hour))
		require.Equal(t, noon, behind.Stages[drain].Start, "no stage begins before the deletion")
		annotations := store(behind, nil)
		again := contract.DeletionOf(stored(deleting, annotations), nil, deleting.Add(-time.Hour))
		require.Empty(t, again.Changes(annotations), "its own record stays, whatever the clock")

		ahead := contract.DeletionOf(stored(deleting, nil), nil, now)
		ahead.Begin(drain, now.Add(time.Hour))
		mended := contract.DeletionOf(stored(deleting, store(ahead, nil)), nil, now)
		require.Equal(t, now, mended.Stages[drain].Start, "the stage begins anew")
	})
}

func TestDeletionOfARunningMachineCostsNothing(t *testing.T) {
	state := contract.MachineState{Metadata: contract.Metadata{Annotations: map[string]string{"other": "kept"}}}
	require.Zero(t, testing.AllocsPerRun(10, func() {
		if len(state.Deletion(noon).Changes(state.Annotations)) > 0 {
			t.Error("there is nothing to change")
		}
	}))
}
