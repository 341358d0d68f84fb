package provider_test

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/machinist-dev/machinist/machine/provider"
)

// shelf is a new cloud in one type: a shelf with machines on it, of which each token gets one.
type shelf struct {
	mu    sync.Mutex
	boxes map[string]string // the number of the box, by token
	last  int
}

func (s *shelf) Name() string { return "shelf" }

func (s *shelf) Create(ctx context.Context, r provider.Request) (provider.Instance, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ctx.Err() != nil {
		return provider.Instance{}, ctx.Err()
	}
	if s.boxes[r.Token] == "" { // the token decides whether there is one: an answer may have been lost
		if string(r.Spec) != `{}` {
			return provider.Instance{}, provider.Errorf(provider.Invalid, "a box has no settings: give {}")
		}
		s.last++
		s.boxes[r.Token] = fmt.Sprintf("shelf://box-%d", s.last)
	}
	return s.box(r.Token), nil
}

func (s *shelf) box(token string) provider.Instance {
	return provider.Instance{ProviderID: s.boxes[token], Token: token, State: provider.Running}
}

func (s *shelf) Get(_ context.Context, r provider.Request) (provider.Instance, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for token, id := range s.boxes {
		if id == r.ProviderID || (r.ProviderID == "" && token == r.Token) {
			return s.box(token), nil
		}
	}
	return provider.Instance{}, provider.Errorf(provider.NotFound, "no box has the token %s", r.Token)
}

func (s *shelf) Delete(ctx context.Context, r provider.Request) (gone bool, err error) {
	box, err := s.Get(ctx, r)
	if err != nil || ctx.Err() != nil {
		return false, ctx.Err() // no box is gone, too
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.boxes, box.Token)
	return true, nil
}

// The cases name what is missing: here, a Delete that says of what does not exist that it is still there.
func ExampleCases() {
	n := 0
	env := provider.Conformance{
		Driver:  &shelf{boxes: map[string]string{}},
		Request: provider.Request{Cluster: "c1", Spec: []byte(`{}`)},
		Invalid: []byte(`{"color":"red"}`),
		Token:   func() string { n++; return fmt.Sprint("token-", n) },
	}
	check := func(c provider.Case) {
		if err := c.Run(context.Background(), env); err != nil {
			fmt.Printf("%s, because %s:\n  %s\n", c.Name, c.Reason, strings.ReplaceAll(err.Error(), "\n", "\n  "))
		}
	}
	for _, c := range provider.Cases() {
		check(c)
	}
	// Output:
	// a deletion of what does not exist is gone, because the last answer may be lost:
	//   delete of what was never made: gone is false
}
