package options

import (
	"errors"
	"flag"
	"fmt"
	"slices"
	"time"
)

// Values of Driver.Name and Driver.As.
const (
	// DriverKwok makes Nodes that kwok simulates.
	DriverKwok = "kwok"
	// DriverStep is a driver in place of the infrastructure objects of all Machines.
	DriverStep = "step"
	// DriverInfraMachine is a driver as the infrastructure provider of a kind of its own.
	DriverInfraMachine = "inframachine"
)

// Driver makes the instances. Without a Name there is none, and the rest counts for nothing.
type Driver struct {
	// Name is DriverKwok or empty.
	Name string
	// As is DriverStep or DriverInfraMachine.
	As string
	// Kubeconfig is the file for the cluster of the driver's Nodes; empty: that of the Machines.
	Kubeconfig string
	// Credentials are where the token of the driver is, in order: see the constants. Empty: it has the credentials of this program, or those
	// of Kubeconfig.
	Credentials []string
	// QPS limits the calls a second.
	QPS float64
	// Latency, Boot, Hidden and Deletion are how long a call takes, and an instance takes until its Node appears, to be read, and to be gone.
	Latency, Boot, Hidden, Deletion time.Duration
	// Quota is how many instances a Cluster may have; 0 is no limit.
	Quota int
	// RefuseQPS is a number of calls a second beyond which some are refused; 0 refuses none.
	RefuseQPS float64
	// LoseEvery is which answers are lost, every n-th; 0 loses none.
	LoseEvery int
}

func defaultDriver() Driver { return Driver{As: DriverStep, QPS: 20} }

// AddFlags implements Section.
func (d *Driver) AddFlags(flags *flag.FlagSet) {
	flags.StringVar(&d.Name, "driver", d.Name,
		"`name` of a driver that makes instances: kwok creates Nodes that kwok simulates; empty: none")
	flags.StringVar(&d.As, "driver-as", d.As,
		"how the driver is used: step, in place of the infrastructure objects of all Machines; or inframachine, as the infrastructure "+
			"provider of KwokMachines, whose CustomResourceDefinitions --print-crds prints")
	flags.StringVar(&d.Kubeconfig, "driver-kubeconfig", d.Kubeconfig,
		"kubeconfig `file` of the cluster with the driver's Nodes; empty: this cluster")
	flags.Var(&list{into: &d.Credentials}, "driver-credentials",
		"`sources` of the driver's bearer token, a list with commas, read for each call: secret:NAMESPACE/NAME, with the key token; "+
			"environment:VARIABLE; metadata:URL, which answers with the token. The first that exists counts, so that all are of one "+
			"account. The token's user needs get, list, create and delete of Nodes. With class in the list the Secrets of a "+
			"MachineClass go before these, and with class alone instances without a Machine are not looked for; empty: the credentials of "+
			"the manager, or of --driver-kubeconfig")
	flags.Float64Var(&d.QPS, "driver-qps", d.QPS, "calls a second that the driver gets at most; more wait for their turn")
	flags.DurationVar(&d.Latency, "driver-latency", d.Latency, "how long each call to the driver takes")
	flags.DurationVar(&d.Boot, "driver-boot-time", d.Boot, "how long a new instance takes until its Node appears")
	flags.DurationVar(&d.Hidden, "driver-hidden-time", d.Hidden, "how long a new instance cannot be read")
	flags.DurationVar(&d.Deletion, "driver-deletion-time", d.Deletion, "how long an instance takes to be gone")
	flags.IntVar(&d.Quota, "driver-quota", d.Quota, "instances that a Cluster may have; 0 is no limit")
	flags.Float64Var(&d.RefuseQPS, "driver-refuse-qps", d.RefuseQPS,
		"calls a second beyond which the driver refuses some; 0 refuses none")
	flags.IntVar(&d.LoseEvery, "driver-lose-every", d.LoseEvery, "every n-th answer of the driver is lost; 0 loses none")
}

// Validate implements Section.
func (d *Driver) Validate() error {
	if d.Name == "" {
		return nil
	}
	errs := d.validCredentials()
	if d.Name != DriverKwok {
		errs = append(errs, fmt.Errorf("--driver %q: give %s, or nothing", d.Name, DriverKwok))
	}
	if !slices.Contains([]string{DriverStep, DriverInfraMachine}, d.As) {
		errs = append(errs, fmt.Errorf("--driver-as %q: give %s or %s", d.As, DriverStep, DriverInfraMachine))
	}
	if d.QPS <= 0 {
		errs = append(errs, fmt.Errorf("--driver-qps %v: give a positive number of calls a second", d.QPS))
	}
	for _, t := range []struct {
		flag  string
		value time.Duration
	}{{"latency", d.Latency}, {"boot-time", d.Boot}, {"hidden-time", d.Hidden}, {"deletion-time", d.Deletion}} {
		if t.value < 0 {
			errs = append(errs, fmt.Errorf("--driver-%s %s: give a time such as 2s, or 0", t.flag, t.value))
		}
	}
	if d.Quota < 0 || d.RefuseQPS < 0 || d.LoseEvery < 0 {
		errs = append(errs, errors.New("--driver-quota, --driver-refuse-qps and --driver-lose-every: give 0 or more"))
	}
	return errors.Join(errs...)
}

// IsStep reports whether the driver is used in place of the infrastructure objects of all Machines.
func (d *Driver) IsStep() bool { return d.Name != "" && d.As == DriverStep }

// IsProvider reports whether the driver is the infrastructure provider of a kind of its own.
func (d *Driver) IsProvider() bool { return d.Name != "" && d.As == DriverInfraMachine }
