package provider_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/machinist-dev/machinist/machine/provider"
)

// nothing is where a new cloud begins: the four methods that a Driver needs, and no content.
type nothing struct{}

func (nothing) Name() string { return "rack" }
func (nothing) Create(context.Context, provider.Request) (provider.Instance, error) {
	return provider.Instance{}, nil
}

func (nothing) Get(context.Context, provider.Request) (provider.Instance, error) {
	return provider.Instance{}, nil
}
func (nothing) Delete(context.Context, provider.Request) (bool, error) { return false, nil }

// rack is the finished cloud: a rack of servers behind an API with names, tags and no idempotency tokens.
type rack struct {
	api   sync.Mutex // stands for what makes calls with one token wait for each other
	tags  map[string]map[string]string
	count int
}

// What is optional is found by Of; a method with a slip in its signature would not be.
var (
	_ provider.Defaulter = (*rack)(nil)
	_ provider.Validator = (*rack)(nil)
	_ provider.Lister    = (*rack)(nil)
)

// rackSpec is the specification of a server.
type rackSpec struct {
	Size string `json:"size,omitempty"`
}

func (*rack) Name() string { return "rack" }

// AddDefaults implements provider.Defaulter.
func (*rack) AddDefaults(spec json.RawMessage) (json.RawMessage, error) {
	content := rackSpec{Size: "1u"}
	if len(spec) > 0 {
		if err := json.Unmarshal(spec, &content); err != nil {
			return nil, provider.Errorf(provider.Invalid, "the specification is no JSON object: %w", err)
		}
	}
	return json.Marshal(content)
}

// Validate implements provider.Validator: it refuses what Create would refuse, so that a Machine says so before it costs anything.
func (d *rack) Validate(_ context.Context, r provider.Request) error {
	spec, err := d.AddDefaults(r.Spec)
	if err != nil {
		return err
	}
	var content rackSpec
	if err := json.Unmarshal(spec, &content); err != nil || (content.Size != "1u" && content.Size != "2u") {
		return provider.Errorf(provider.Invalid, "size %q: give 1u or 2u", content.Size)
	}
	return nil
}

// Create looks for the server that an earlier call has made: its answer may have been lost.
func (d *rack) Create(ctx context.Context, r provider.Request) (provider.Instance, error) {
	d.api.Lock()
	defer d.api.Unlock()
	if err := ctx.Err(); err != nil {
		return provider.Instance{}, err
	}
	if id := d.find(r.Token); id != "" {
		return d.server(id), nil
	}
	if err := d.Validate(ctx, r); err != nil {
		return provider.Instance{}, err
	}
	d.count++
	id := fmt.Sprintf("rack://server-%d", d.count)
	d.tags[id] = map[string]string{"token": r.Token, "name": r.Name, "cluster": r.Cluster}
	return d.server(id), nil
}

// find returns the server with a token.
func (d *rack) find(token string) string {
	for id, tags := range d.tags {
		if tags["token"] == token {
			return id
		}
	}
	return ""
}

func (d *rack) server(id string) provider.Instance {
	return provider.Instance{
		ProviderID: id, Token: d.tags[id]["token"], Name: d.tags[id]["name"], State: provider.Running,
		Addresses: []provider.Address{{Type: "Hostname", Address: d.tags[id]["name"]}},
	}
}

// Get tells "it does not exist" from every other error: the two lead to opposite actions.
func (d *rack) Get(ctx context.Context, r provider.Request) (provider.Instance, error) {
	d.api.Lock()
	defer d.api.Unlock()
	if err := ctx.Err(); err != nil {
		return provider.Instance{}, err
	}
	id := r.ProviderID
	if id == "" {
		id = d.find(r.Token)
	}
	if d.tags[id] == nil {
		return provider.Instance{}, provider.Errorf(provider.NotFound, "there is no server for %s", r.Token)
	}
	return d.server(id), nil
}

// Delete uses only what identifies the server. What does not exist is gone: provider.Of understands NotFound so.
func (d *rack) Delete(ctx context.Context, r provider.Request) (gone bool, err error) {
	server, err := d.Get(ctx, r)
	if err != nil {
		return false, err
	}
	d.api.Lock()
	defer d.api.Unlock()
	delete(d.tags, server.ProviderID)
	return true, nil
}

// List implements provider.Lister, by which instances without a Machine are found.
func (d *rack) List(_ context.Context, r provider.Request) ([]provider.Instance, error) {
	d.api.Lock()
	defer d.api.Unlock()
	var all []provider.Instance
	for _, id := range slices.Sorted(maps.Keys(d.tags)) {
		if d.tags[id]["cluster"] == r.Cluster {
			all = append(all, d.server(id))
		}
	}
	return all, nil
}

// A new cloud begins with four empty methods. The cases say what is missing and why, until they are silent.
func Example_newCloud() {
	judge := func(driver provider.Driver, patience time.Duration) (failed []string) {
		n := 0
		env := provider.Conformance{
			Driver: driver, Request: provider.Request{Cluster: "c1", Spec: []byte(`{"size":"2u"}`)}, Invalid: []byte(`{"size":"9u"}`),
			Token: func() string { n++; return fmt.Sprint("token-", n) }, Limit: patience, Pause: time.Millisecond,
		}
		for _, c := range provider.Cases() {
			if err := c.Run(context.Background(), env); err != nil {
				failed = append(failed, c.Name)
			}
		}
		return failed
	}
	fmt.Println("the empty struct:\n-", strings.Join(judge(nothing{}, 20*time.Millisecond), "\n- "))
	fmt.Println("the finished cloud:", judge(&rack{tags: map[string]map[string]string{}}, time.Minute))
	// Output:
	// the empty struct:
	// - a new instance has its token and its provider ID
	// - a new instance runs after a while
	// - a second create with a token returns the same instance
	// - concurrent creates with a token make one instance
	// - an instance is found by its token and by its provider ID
	// - an instance that does not exist is NotFound
	// - a deletion ends, and the instance is gone then
	// - a deletion of what does not exist is gone
	// - a deletion needs no specification
	// - a deletion leaves other instances alone, also those with the same name
	// - an invalid specification makes nothing and is Invalid
	// - a call whose context has ended makes nothing
	// the finished cloud: []
}
