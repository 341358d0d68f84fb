package patch

import (
	"strconv"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
)

func TestAnObjectOlderThanOurOwnWriteIsBehind(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
	m := NewWriter(nil, clock)
	at := func(version string) *metav1.ObjectMeta {
		return &metav1.ObjectMeta{UID: "u", ResourceVersion: version}
	}
	if m.Behind(at("5")) {
		t.Error("nothing was written: nothing is behind")
	}
	m.Wrote(at("9"))
	if !m.Behind(at("8")) || !m.Behind(at("5")) {
		t.Error("an older copy must be behind")
	}
	if m.Behind(at("10")) || m.Behind(at("8")) {
		t.Error("once a newer copy was seen, the write is dropped")
	}
	m.Wrote(at("11"))
	clock.SetTime(clock.Now().Add(MaxBehind))
	if m.Behind(at("10")) {
		t.Error("a cache that never catches up must not hold an object for good")
	}
}

func TestEveryCopyOfAnObjectThatTheLastWriteRemovedIsBehind(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
	deleted, grace := metav1.Unix(990, 0), int64(30)
	for name, tc := range map[string]struct {
		answer metav1.ObjectMeta
		behind bool
	}{
		"the last finalizer was removed":   {metav1.ObjectMeta{DeletionTimestamp: &deleted}, true},
		"another finalizer is left":        {metav1.ObjectMeta{DeletionTimestamp: &deleted, Finalizers: []string{"example.com/other"}}, false},
		"the object lives":                 {metav1.ObjectMeta{}, false},
		"the grace period has yet to pass": {metav1.ObjectMeta{DeletionTimestamp: &deleted, DeletionGracePeriodSeconds: &grace}, false},
	} {
		m := NewWriter(nil, clock)
		tc.answer.UID, tc.answer.ResourceVersion = "u", "8" // the server answers with the version from before the removal
		cached := &metav1.ObjectMeta{UID: "u", ResourceVersion: "8"}
		m.Wrote(&tc.answer)
		for range 2 {
			if m.Behind(cached) != tc.behind {
				t.Errorf("%s: want behind %t, every time", name, tc.behind)
			}
		}
		if m.Behind(&metav1.ObjectMeta{UID: "another", ResourceVersion: "8"}) {
			t.Errorf("%s: an object of the same name that was created since is not behind", name)
		}
		clock.SetTime(clock.Now().Add(MaxBehind))
		if m.Behind(cached) {
			t.Errorf("%s: a mark must not outlive MaxBehind", name)
		}
	}
}

func TestALateAnswerDoesNotHideALaterWrite(t *testing.T) {
	m := NewWriter(nil, clocktesting.NewFakePassiveClock(time.Unix(1000, 0)))
	for _, version := range []string{"12", "11"} { // two workers write one object, and the first records its write last
		m.Wrote(&metav1.ObjectMeta{UID: "u", ResourceVersion: version})
	}
	if !m.Behind(&metav1.ObjectMeta{UID: "u", ResourceVersion: "11"}) {
		t.Error("a copy without the later write must be behind")
	}
}

func TestMarksAreBounded(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
	m := NewWriter(nil, clock)
	for i := range 1000 {
		m.Wrote(&metav1.ObjectMeta{UID: types.UID(strconv.Itoa(i)), ResourceVersion: "1"})
		clock.SetTime(clock.Now().Add(time.Second))
	}
	if n := len(m.written); n > 2*int(MaxBehind/time.Second) {
		t.Errorf("%d writes of objects that never came back are remembered", n)
	}
}
