package machine

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
	m := newMemory(clock)
	at := func(version string) *metav1.ObjectMeta {
		return &metav1.ObjectMeta{UID: "u", ResourceVersion: version}
	}
	if m.behind(at("5")) {
		t.Error("nothing was written: nothing is behind")
	}
	m.wrote(at("9"))
	if !m.behind(at("8")) || !m.behind(at("5")) {
		t.Error("an older copy must be behind")
	}
	if m.behind(at("10")) || m.behind(at("8")) {
		t.Error("once a newer copy was seen, the write is forgotten")
	}
	m.wrote(at("11"))
	clock.SetTime(clock.Now().Add(maxBehind))
	if m.behind(at("10")) {
		t.Error("a cache that never catches up must not hold a Machine for good")
	}
}

func TestMemoryIsBounded(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
	m := newMemory(clock)
	for i := range 1000 {
		m.wrote(&metav1.ObjectMeta{UID: types.UID(strconv.Itoa(i)), ResourceVersion: "1"})
		clock.SetTime(clock.Now().Add(time.Second))
	}
	if n := len(m.written); n > 2*int(maxBehind/time.Second) {
		t.Errorf("%d writes of objects that never came back are remembered", n)
	}
	key := types.NamespacedName{Name: "m"}
	m.setSettling(key, settling{Fingerprint: 1})
	m.forget(key)
	if len(m.pending) != 0 {
		t.Error("what was pending for a Machine that is gone is remembered")
	}
}
