package provider_test

import (
	"encoding/json"
	"fmt"

	"github.com/machinist-dev/machinist/machine/provider"
)

// A log of your own that encodes what it gets has no credentials and no user data in it.
func ExampleValues() {
	values := provider.Values{"token": []byte("s3cret")}
	request := provider.Request{Name: "m1", Cluster: "c1", Token: "uid-1", UserData: []byte("s3cret")}
	for _, logged := range []any{values, request} {
		text, _ := json.Marshal(logged)
		fmt.Println(string(text))
	}
	text, err := values.MarshalText() // as loggers that know encoding.TextMarshaler do
	fmt.Println(string(text), err)
	text, err = request.MarshalText()
	fmt.Println(string(text), err)
	// Output:
	// "credentials [token]"
	// "instance \"m1\" of \"c1\" (token uid-1, provider ID \"\")"
	// credentials [token] <nil>
	// instance "m1" of "c1" (token uid-1, provider ID "") <nil>
}
