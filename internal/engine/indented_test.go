package engine_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/machinist-dev/machinist/internal/engine"
)

func TestAMessageBelowABulletIsAListOfItsOwn(t *testing.T) {
	for message, want := range map[string]string{
		"":                      " ",
		"one line":              " one line",
		"a * b":                 " a * b",
		"* a bullet":            "\n  * a bullet",
		"* one\n* two":          "\n  * one\n  * two",
		"* one\n  * below":      "\n  * one\n    * below",
		"a head:\n* one\n* two": "\n  a head:\n  * one\n  * two",
	} {
		if got := engine.Indented(message); got != want {
			t.Errorf("%q: want %q, got %q", message, want, got)
		}
	}
}

func TestWhatIsKnownOfAnObjectIsThatOfItsName(t *testing.T) {
	key := types.NamespacedName{Namespace: "ns", Name: "m"}
	memory := engine.NewMemory(func() *int { return new(int) }, nil)
	of := memory.Of(key, "uid")
	if memory.Of(key, "uid") != of {
		t.Error("another value is known")
	}
	memory.Forget(key)
	if memory.Of(key, "uid") == of {
		t.Error("it was not forgotten")
	}
}
