package scale_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/machineset/scale"
)

func naming(t *testing.T, text string) scale.Naming {
	t.Helper()
	n, err := scale.NewNaming("set-uid", "workers", "demo", text)
	require.NoError(t, err)
	return n
}

func TestNaming_NamesFollowFromTheSetAndTheSlotAlone(t *testing.T) {
	t.Parallel()
	n := naming(t, "")
	require.Equal(t, n.Name(1), naming(t, "").Name(1))
	require.Regexp(t, `^workers-[b-z2-9]{10}$`, n.Name(1))
	require.NotEqual(t, n.Name(1), n.Name(2))
	again, err := scale.NewNaming("another-uid", "workers", "demo", "")
	require.NoError(t, err)
	require.NotEqual(t, n.Name(1), again.Name(1), "the Machines of a set that was made again are others")
	require.Regexp(t, `^demo-workers-[b-z2-9]{5}-x$`, naming(t, "{{ .cluster.name }}-{{ .machineSet.name }}-{{ .random }}-x").Name(7))
}

func TestNaming_NamesFitHoweverLongTheSetIsNamed(t *testing.T) {
	t.Parallel()
	for _, set := range []string{"a", strings.Repeat("a", 63), strings.Repeat("a", 253), strings.Repeat("a", 51) + ".b",
		strings.Repeat("a", 50) + "--b"} {
		for _, text := range []string{"", "{{ .machineSet.name }}-{{ .random }}", "{{ .random }}-{{ .machineSet.name }}"} {
			n, err := scale.NewNaming("uid", set, "c", text)
			require.NoError(t, err)
			one, other := n.Name(1), n.Name(2)
			require.LessOrEqual(t, len(one), 63)
			require.Empty(t, validation.IsDNS1123Subdomain(one), one)
			require.NotEqual(t, one, other)
		}
	}
}

func TestNaming_TemplatesThatCannotWorkAreExplained(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"{{ .machineSet.name }}":   "it must contain {{ .random }}",
		"{{ .random":               "unclosed action",
		"{{ .random }}-{{ .who }}": `no entry for key "who"`,
		"X_{{ .random }}":          "lowercase RFC 1123 subdomain",
	} {
		_, err := scale.NewNaming("uid", "workers", "demo", text)
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, text)
	}
}

func TestLedger_ReservesSlotsOnceAndSurvivesBeingStored(t *testing.T) {
	t.Parallel()
	n := naming(t, "")
	l, first := scale.NewLedger().Reserve(2, n, nil)
	require.Len(t, first, 2)
	stored, err := scale.ParseLedger(l.String())
	require.NoError(t, err)
	if diff := cmp.Diff(l, stored); diff != "" {
		t.Error(diff)
	}
	l, second := stored.Reserve(1, n, func(name string) bool { return name == n.Name(3) })
	if diff := cmp.Diff([]scale.Entry{{Slot: 4, Name: n.Name(4)}}, second); diff != "" {
		t.Errorf("a slot whose name is taken is left out (-want +got):\n%s", diff)
	}
	l = l.Settle(map[string]bool{n.Name(4): true, n.Name(1): true, n.Name(2): true})
	if diff := cmp.Diff(scale.Ledger{Set: "set-uid", Next: 5, Pending: []scale.Entry{}}, l); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	_, third := l.Reserve(1, n, nil)
	require.Equal(t, int64(5), third[0].Slot, "slots are never taken twice")
}

func TestLedger_TenThousandSlotsUnderFiveCharactersHaveTenThousandNames(t *testing.T) {
	t.Parallel()
	n := naming(t, "{{ .machineSet.name }}-{{ .random }}")
	names, l := map[string]bool{}, scale.NewLedger()
	for len(names) < 10_000 {
		var reserved []scale.Entry
		l, reserved = l.Reserve(100, n, func(name string) bool { return names[name] })
		for _, e := range reserved {
			require.False(t, names[e.Name], e.Name)
			names[e.Name] = true
		}
		l = l.Settle(names)
	}
	t.Logf("%d slots burnt", l.Next-1-10_000)
}

func TestLedger_WhatCannotBeReadIsNoEmptyLedger(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "{}", "null", `{"next":0}`, `{"next":2,"pending":[{"slot":2,"name":"a"}]}`, `{"next":3,"pending":[{"slot":1}]}`,
		`{"next":5,"pending":[{"slot":2,"name":"a"},{"slot":1,"name":"b"}]}`, `{"next":"one"}`, `[]`, `{"next":9223372036854775807}`,
	} {
		_, err := scale.ParseLedger(text)
		require.ErrorIs(t, err, scale.ErrLedger, text)
	}
}

func TestLedger_EndsWhenNamesRunOut(t *testing.T) {
	t.Parallel()
	n := naming(t, `{{ printf "%.1s" .random }}`)
	l, reserved := scale.NewLedger().Reserve(100, n, nil)
	require.Less(t, len(reserved), 28, "there are 27 characters")
	require.NotEmpty(t, reserved)
	_, none := l.Reserve(1, n, nil)
	require.Empty(t, none)
}

func TestLedger_IsOfTheSetThatTookSlots(t *testing.T) {
	t.Parallel()
	require.True(t, scale.NewLedger().IsOf("any"))
	l, _ := scale.NewLedger().Reserve(1, naming(t, ""), nil)
	require.True(t, l.IsOf("set-uid"))
	require.False(t, l.IsOf("another-uid"))
}

func TestASlotThatCannotHaveBeenTakenIsNone(t *testing.T) {
	t.Parallel()
	state := &contract.MachineState{}
	state.Annotations = scale.Stamp{Set: "set-uid", Slot: 1 << 62}.Annotations()
	require.Zero(t, scale.Of(state, "set-uid").Slot)
}

func TestStamp(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	for _, stamp := range []scale.Stamp{
		{Set: "u", Slot: 5}, {Set: "u", Slot: 5, From: "d"}, {Set: "u", Slot: 5, After: noon}, {Set: "u", Slot: 5, From: "d", After: noon},
	} {
		require.Equal(t, stamp, scale.ReadStamp(stamp.Annotations()), "what is written is read")
	}
	for text, want := range map[string]scale.Stamp{
		"": {}, "u": {}, "u/": {}, "u/x": {}, "/5": {Slot: 5}, "u/5/d/noon": {Set: "u", Slot: 5, From: "d"},
		"u/5//2026-01-01T13:00:00+01:00": {Set: "u", Slot: 5, After: noon},
	} {
		got := scale.ReadStamp(map[string]string{scale.StampAnnotation: text})
		require.True(t, want.After.Equal(got.After), text)
		got.After = want.After
		require.Equal(t, want, got, text)
	}
	require.Zero(t, scale.ReadStamp(nil))
}

func TestLedger_AbandonsTheYoungestAndSettlesWhatWasSeen(t *testing.T) {
	t.Parallel()
	l, taken := scale.NewLedger().Reserve(3, naming(t, ""), nil)
	if diff := cmp.Diff(taken[:2], l.Abandon(1).Pending); diff != "" {
		t.Error(diff)
	}
	require.Empty(t, l.Abandon(7).Pending)
	require.Len(t, l.Abandon(-1).Pending, 3)
	if diff := cmp.Diff(taken[1:], l.Settle(map[string]bool{taken[0].Name: true, "other": true}).Pending); diff != "" {
		t.Error(diff)
	}
	same := l.Settle(map[string]bool{"other": true})
	require.Equal(t, l.String(), same.String(), "what changes nothing is not written")
}

func TestARebuiltLedgerBeginsBehindAllThatCanHaveBeenTaken(t *testing.T) {
	t.Parallel()
	ledger := scale.Rebuilt("set", 7)
	require.Greater(t, ledger.Next, int64(1<<19))
	require.True(t, ledger.IsOf("set"))
	require.False(t, ledger.IsOf("other"))
	read, err := scale.ParseLedger(ledger.String())
	require.NoError(t, err)
	require.Equal(t, ledger, read)
}

func TestJudge_OnlyWhatWasMadeForTheSlotIsOwn(t *testing.T) {
	t.Parallel()
	object := func(change func(*metav1.ObjectMeta)) *metav1.ObjectMeta {
		o := &metav1.ObjectMeta{Annotations: scale.Stamp{Set: "set", Slot: 4}.Annotations(),
			OwnerReferences: []metav1.OwnerReference{{UID: "set", Controller: new(true)}}}
		change(o)
		return o
	}
	for name, c := range map[string]struct {
		change func(*metav1.ObjectMeta)
		part   bool
	}{
		"made for it":          {func(*metav1.ObjectMeta) {}, true},
		"of another slot":      {func(o *metav1.ObjectMeta) { o.Annotations = scale.Stamp{Set: "set", Slot: 5}.Annotations() }, false},
		"of another set":       {func(o *metav1.ObjectMeta) { o.Annotations = scale.Stamp{Set: "other", Slot: 4}.Annotations() }, false},
		"made by a person":     {func(o *metav1.ObjectMeta) { o.Annotations, o.OwnerReferences = nil, nil }, false},
		"being deleted":        {func(o *metav1.ObjectMeta) { o.DeletionTimestamp = new(metav1.Now()) }, false},
		"controlled by others": {func(o *metav1.ObjectMeta) { o.OwnerReferences[0].UID = "machine" }, true},
		"released":             {func(o *metav1.ObjectMeta) { o.OwnerReferences = nil }, true},
	} {
		require.Equal(t, c.part, scale.IsPartOf(object(c.change), "set", 4), name)
	}
}
