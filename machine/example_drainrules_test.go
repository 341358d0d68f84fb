package machine_test

import (
	"fmt"

	"github.com/machinist-dev/machinist/drain"
	"github.com/machinist-dev/machinist/machine"
)

// MachineDrainRules can stand among the filters of kubectl drain, or any other rules.
func ExampleMachineDrainRules() {
	amongKubectls := func(ofMachine drain.MachineDrainRules, namespaces drain.NamespaceLabels) []drain.Rule {
		return drain.KubectlRules(drain.KubectlOptions{
			Force: true, IgnoreAllDaemonSets: true, DeleteEmptyDirData: true, // the deletion of a Machine asks no person
			Additional: []drain.Rule{ofMachine.Rule(namespaces)},
		})
	}
	options := machine.Options{Policy: machine.Policy{
		DrainRules: machine.MachineDrainRules(amongKubectls),
	}}
	fmt.Println(options.Policy.DrainRules != nil)
	// Output: true
}
