package provider

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
)

func refuses(ctx context.Context, e Conformance) error {
	r := e.request()
	r.Spec = e.Invalid
	instance, err := e.Driver.Create(ctx, r)
	if err == nil {
		return errors.Join(fmt.Errorf("create accepted %s and made %s", e.Invalid, instance.ProviderID), e.gone(ctx, r))
	}
	if class := ClassOf(err); class != Invalid {
		return fmt.Errorf("create refused an invalid specification with the class %q: %w", class, err)
	}
	return nil
}

func validates(ctx context.Context, e Conformance) error {
	v, ok := e.Driver.(Validator)
	if !ok {
		return nil
	}
	r := e.request()
	if err := v.Validate(ctx, r); err != nil {
		return fmt.Errorf("validate refused what create accepts: %w", err)
	}
	if made, err := e.Driver.Get(ctx, r); err == nil {
		return errors.Join(fmt.Errorf("validate has made %s", made.ProviderID), e.gone(ctx, r))
	}
	r.Spec = e.Invalid
	if err := v.Validate(ctx, r); ClassOf(err) != Invalid {
		return errors.Join(fmt.Errorf("validate returned the class %q for an invalid specification", ClassOf(err)), err)
	}
	return nil
}

func defaults(ctx context.Context, e Conformance) error {
	d, ok := e.Driver.(Defaulter)
	if !ok {
		return nil
	}
	for _, spec := range [][]byte{nil, []byte("{}"), e.Request.Spec} {
		input := bytes.Clone(spec)
		once, err := d.AddDefaults(input)
		if err != nil {
			return fmt.Errorf("add defaults to %q: %w", spec, err)
		}
		if !bytes.Equal(input, spec) {
			return fmt.Errorf("the input %q became %q", spec, input)
		}
		twice, err := d.AddDefaults(bytes.Clone(once))
		if err != nil || !bytes.Equal(once, twice) {
			return errors.Join(fmt.Errorf("defaults of %q are %q, and defaults of these %q", spec, once, twice), err)
		}
	}
	return nil
}

func lists(ctx context.Context, e Conformance) error {
	l, ok := e.Driver.(Lister)
	if !ok {
		return nil
	}
	r, other := e.request(), e.request()
	other.Cluster += "-other"
	return e.with(ctx, r, func(Instance) error {
		return e.with(ctx, other, func(Instance) error { return e.listsApart(ctx, l, r, other) })
	})
}

// listsApart checks the lists of two clusters with one instance each. It waits until each is visible before it checks the other's absence.
func (e Conformance) listsApart(ctx context.Context, l Lister, r, other Request) error {
	var all []Instance
	has := func(token string) bool {
		return slices.ContainsFunc(all, func(i Instance) bool { return i.Token == token })
	}
	for _, one := range []Request{r, other} {
		if err := e.eventually(ctx, "the list of "+one.Cluster+" to have the new instance", func(ctx context.Context) (seen bool, err error) {
			all, err = l.List(ctx, one)
			return has(one.Token), err
		}); err != nil {
			return err
		}
	}
	if has(r.Token) {
		return fmt.Errorf("the list of the cluster %q has an instance of %q", other.Cluster, r.Cluster)
	}
	return nil
}
