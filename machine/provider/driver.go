package provider

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime/debug"

	"github.com/go-logr/logr"

	"github.com/machinist-dev/machinist/contract"
	"github.com/machinist-dev/machinist/machine/userdata"
)

// Driver creates, finds and deletes instances at one provider. It uses no Kubernetes objects. Validator, Defaulter, Lister and
// CloudConfigurer are optional interfaces. Every method must be safe for concurrent use, return when its context ends, return errors of
// type *Error if their Class is known, and put neither credentials nor user data into errors. The Cases check these rules.
type Driver interface {
	// Name is a short, constant name of the provider, such as hcloud. It is the value of labels in metrics.
	Name() string
	// Create creates the instance of Request.Token, or returns the existing one: of all calls with one Token, including concurrent calls and
	// calls whose response was lost, at most one creates an instance. It does not wait until the instance runs. A request that the provider
	// will never accept is an error of the class Invalid, and creates nothing.
	Create(ctx context.Context, r Request) (Instance, error)
	// Get returns the instance with Request.ProviderID, or without one that of Request.Token. For an instance that does not exist the error
	// has the class NotFound; for an instance that cannot be read it has any other class.
	Get(ctx context.Context, r Request) (Instance, error)
	// Delete begins or continues to delete the instance with Request.ProviderID, or without one that of Request.Token, with everything that
	// Create has made for it. It does not wait: gone is true when nothing is left, or when there never was anything. It uses only Token,
	// ProviderID, Resume and Credentials of the request, because the specification may have become invalid.
	Delete(ctx context.Context, r Request) (gone bool, err error)
}

// Validator is a Driver that can check a request before Create. It creates and changes nothing. The message of an error of the class
// Invalid is the change that is needed; any other error means that the result is unknown.
type Validator interface {
	Validate(ctx context.Context, r Request) error
}

// Defaulter is a Driver whose specifications have defaults. AddDefaults is pure: it makes no request, changes no input, and adds nothing
// to a specification that has all defaults.
type Defaulter interface {
	AddDefaults(spec json.RawMessage) (json.RawMessage, error)
}

// Lister is a Driver that can find instances whose Machines are gone. List returns the instances that Create has made for Request.Cluster
// with Request.Credentials, including those that are being deleted, with their Tokens.
type Lister interface {
	List(ctx context.Context, r Request) ([]Instance, error)
}

// CloudConfigurer is a Driver whose machines need a cloud configuration file, such as /etc/kubernetes/cloud-config. GetCloudConfig returns
// it, and a File without a Path for a request that needs none.
type CloudConfigurer interface {
	GetCloudConfig(ctx context.Context, r Request) (userdata.File, error)
}

// Request is the input of a Driver, which must not change it. Its text form contains neither user data nor credentials.
type Request struct {
	// Token identifies one instance forever; usually it is the UID of the Machine.
	Token string
	// Name is the instance's name for people; it may be used again with another Token. Cluster is the name of the Machine's cluster.
	Name, Cluster string
	// ProviderID is the ID that Create returned for the instance; empty before it is recorded.
	ProviderID string
	// Spec is the provider's own content, with defaults.
	Spec json.RawMessage
	// OperatingSystem is the name of the operating system, such as ubuntu, if the image does not follow from Spec; otherwise empty.
	OperatingSystem string
	// Version is the Kubernetes version, with its leading v. FailureDomain is the wanted failure domain, or empty.
	Version, FailureDomain string
	// Labels are for the provider's labels or tags, if it has any.
	Labels map[string]string
	// UserData is the first-boot data; it is set only for Create.
	UserData []byte
	// Resume is Instance.Resume of the last result, or nil.
	Resume json.RawMessage
	// Account identifies the credentials, for example by their Secret: rate limits apply to an Account.
	Account string
	// Credentials returns the credentials; nil means that there are none. A Driver calls it in each call that needs them, and does not store
	// the result.
	Credentials Credentials
}

// Format implements fmt.Formatter, so that no secret is printed.
func (r Request) Format(to fmt.State, _ rune) { _, _ = fmt.Fprint(to, r.String()) }

// MarshalText implements encoding.TextMarshaler, so that no secret is stored or logged as JSON.
func (r Request) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// String implements fmt.Stringer, which loggers use.
func (r Request) String() string {
	return fmt.Sprintf("instance %q of %q (token %s, provider ID %q)", r.Name, r.Cluster, r.Token, r.ProviderID)
}

// State is the state of an instance.
type State string

// States of an instance. A Driver that cannot determine the state returns Running.
const (
	Creating State = "Creating"
	Running  State = "Running"
	Stopped  State = "Stopped"
	Deleting State = "Deleting"
	// Failed: the provider reports that the instance cannot run. It may end, as ERROR does in some clouds when a quota is raised.
	Failed State = "Failed"
)

// Instance is one instance as its provider reports it.
type Instance struct {
	// ProviderID is the provider ID of the Node, such as hcloud://12345. Create may return none yet, and then Resume finds the instance.
	ProviderID string
	// Token is the Token of the Request that created it.
	Token string
	// Name is the provider's name, and usually the name of the Node.
	Name string
	// State is its state, and Message the reason for people, which may be empty.
	State   State
	Message string
	// Addresses are the addresses of the Node. FailureDomain is the actual failure domain, or empty.
	Addresses     []Address
	FailureDomain string
	// Resume is what the Driver needs in later Requests, or nil. It must not contain secrets: it is stored in an object.
	Resume json.RawMessage
}

// Address is an address of an instance, in the form that Machines use.
type Address = contract.Address

// Operation is a call to a Driver, as named in metrics and errors.
type Operation string

// Operations.
const (
	OpCreate         Operation = "create"
	OpGet            Operation = "get"
	OpDelete         Operation = "delete"
	OpValidate       Operation = "validate"
	OpList           Operation = "list"
	OpGetCloudConfig Operation = "get-cloud-config"
)

// Calls are the methods of a Driver as function values, so that each can be decorated separately. An optional method that the Driver does
// not have is nil. Safe for concurrent use.
type Calls struct {
	// Name is the name of the Driver.
	Name           string
	Create, Get    func(context.Context, Request) (Instance, error)
	Delete         func(context.Context, Request) (gone bool, err error)
	Validate       func(context.Context, Request) error
	AddDefaults    func(json.RawMessage) (json.RawMessage, error)
	List           func(context.Context, Request) ([]Instance, error)
	GetCloudConfig func(context.Context, Request) (userdata.File, error)
}

// Decorator adds behavior to each call of a Driver.
type Decorator func(Calls) Calls

// Of returns the Calls of a Driver with decorators, the first of which is innermost, next to the Driver. It detects once which optional
// interfaces the Driver has. A Delete that returns an error of the class NotFound counts as gone. A call that panics returns an error of
// the class Unavailable, and the stack is in the log of its context, which AddDefaults does not have. A usual list is
//
//	provider.Of(driver, metrics.Decorator(), provider.Timeout(...), provider.RateLimit(...), provider.Cache(...))
func Of(d Driver, decorators ...Decorator) Calls {
	c := Calls{Name: d.Name(), Create: d.Create, Get: d.Get, Delete: func(ctx context.Context, r Request) (bool, error) {
		gone, err := d.Delete(ctx, r)
		if ClassOf(err) == NotFound {
			return true, nil
		}
		return gone && err == nil, err
	}}
	if v, ok := d.(Validator); ok {
		c.Validate = v.Validate
	}
	if v, ok := d.(Defaulter); ok {
		c.AddDefaults = v.AddDefaults
	}
	if v, ok := d.(Lister); ok {
		c.List = v.List
	}
	if v, ok := d.(CloudConfigurer); ok {
		c.GetCloudConfig = v.GetCloudConfig
	}
	for _, decorate := range append([]Decorator{guarded}, decorators...) {
		c = decorate(c)
	}
	return c
}

// guarded turns a panic of a call into an error: the panic of one instance must not end a worker, and List has no other recovery.
func guarded(c Calls) Calls {
	defaults := c.AddDefaults
	c = Around(func(ctx context.Context, op Operation, _ *Request, call func(context.Context) error) (err error) {
		defer recovered(logr.FromContextOrDiscard(ctx), c.Name, op, &err)
		return call(ctx)
	})(c)
	if defaults != nil {
		c.AddDefaults = func(spec json.RawMessage) (result json.RawMessage, err error) {
			defer recovered(logr.Discard(), c.Name, "add-defaults", &err)
			return defaults(spec)
		}
	}
	return c
}

// recovered is deferred by a call, and sets its error when it panics.
func recovered(log logr.Logger, driver string, op Operation, err *error) {
	if value := recover(); value != nil {
		*err = fmt.Errorf("driver %s panicked in %s: %v", driver, op, value)
		log.Error(*err, "A Driver panicked", "stack", string(debug.Stack()))
	}
}

// Around returns a Decorator that wraps every call that makes requests. The function gets the context, the operation, the request and the
// call, which it makes at most once; it returns the error of the call or its own.
func Around(around func(ctx context.Context, op Operation, r *Request, call func(context.Context) error) error) Decorator {
	return func(c Calls) Calls {
		create, get, remove, validate, list, config := c.Create, c.Get, c.Delete, c.Validate, c.List, c.GetCloudConfig
		c.Create, c.Get = wrap(OpCreate, create, around), wrap(OpGet, get, around)
		c.Delete = wrap(OpDelete, remove, around)
		if validate != nil {
			c.Validate = func(ctx context.Context, r Request) error {
				return around(ctx, OpValidate, &r, func(ctx context.Context) error { return validate(ctx, r) })
			}
		}
		c.List, c.GetCloudConfig = wrap(OpList, list, around), wrap(OpGetCloudConfig, config, around)
		return c
	}
}

func wrap[T any](
	op Operation, call func(context.Context, Request) (T, error),
	around func(context.Context, Operation, *Request, func(context.Context) error) error,
) func(context.Context, Request) (T, error) {
	if call == nil {
		return nil
	}
	return func(ctx context.Context, r Request) (result T, err error) {
		err = around(ctx, op, &r, func(ctx context.Context) (err error) {
			result, err = call(ctx, r)
			return err
		})
		return result, err
	}
}
