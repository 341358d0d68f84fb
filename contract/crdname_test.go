package contract_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/machinist-dev/machinist/contract"
)

func TestCRDName_IsThePluralOfTheKindAndTheGroup(t *testing.T) {
	for kind, want := range map[string]string{
		"AWSMachineTemplate": "awsmachinetemplates", "IPAddress": "ipaddresses", "PlacementPolicy": "placementpolicies",
		"HostIndex": "hostindices", "HardwareData": "hardwaredata", // taken for a plural
		"Alias": "aliases", "DNSAlias": "dnsalias", "Ox": "oxen", "Proxbox": "proxboxes", // the whole word only
		"Bureau": "bureaus", "WorldHuman": "worldhumans", // not bureaux, nor humen
	} {
		require.Equal(t, want+".example.com", contract.CRDName(schema.GroupKind{Group: "example.com", Kind: kind}))
	}
	require.Equal(t, ".", contract.CRDName(schema.GroupKind{}), "no panic on nothing")
}

// kindEndings are the last words of kinds: of providers and of Kubernetes, whatever else operators manage, and words that
// touch every rule of CRDName.
const kindEndings = `
	access account acl alias action activity addendum address addressclaim addresspool addresspools addressset affinity agenda agent
	aircraft album alert alpha analysis antenna apex app appendix appliance approval archive area array asset atlas atom attachment
	audit auth authority autoscaler availability axe backend backup balancer bandwidth base baseline basis batch beef belief beta
	binding bios bison block blueprint board body boot bootstrap bootstrapconfig bootstrapconfigtemplate bootstraptoken box branch
	bridge broker brush buffalo build bureau bus cache cactus calico camera canary canvas capability capacity cargo catalog
	category cause census certificate chain change channel chart chassis check checkpoint checksum chef chief child chief church
	circus claim class classifier clause cloud cluster clusterclass clusterconfig clusteridentity clusterresourceset
	clusterresourcesetbinding clusterstatus clustertemplate cobra codec codex collection command commit community company component
	computer condition config configmap configuration connection consensus consortium constraint container content context
	contract controller controlplane controlplanetemplate cookie copy corpus cost countdown counter coverage crash credential
	credentials crisis criterion cronjob cross crux cry currency curriculum customer cycle cypher daemon daemonset dash dashboard data
	database dataimage dataset datacenter datastore datum day debug decision deer default definition delay delivery delta demo
	dependency deployment deploymentzone descriptor device diagnosis diary die diff digest directory discovery disk disruption
	distribution dnsrecord domain dose draft drain driver dummy duty dwarf dynamo echo edge elf eligibility emergency employee
	encryption endpoint endpoints endpointslice engine entity entry envelope environment epoch equipment error eventbus event
	exception exit expansion export extension extensionconfig extra fabric factory failuredomain family farm fax feature
	federation feed fee fetch field file filter finalizer finalizers firewall firmware fish fix flag flash flavor flavour fleet floor
	flow flux fly focus folder foot force forest fork format formula forum forward frame frequency function fuse galaxy gas gateway
	gatewayclass genesis genus glossary goal goose grade grant graph grid group groupstate guardrail guest guide half halo handler
	handshake hardware hardwaredata hash header health healthcheck heartbeat helix hero hierarchy history hive hook horizon host
	hostclaim hostclass hostfirmwarecomponents hostfirmwaresettings house hub human humanresource hydra hypervisor icon id identity
	idea image imagepolicy implementation import index indexer info information infra infrastructure ingress ingressclass input
	inquiry inspection instance instancetype instruction integration interface interval inventory invoice ip ipaddress
	ipaddressclaim ippool iris issue issuer item jar job journal jury key keypair kind kit knife knowledge label lambda lattice latex
	launch layer layout leaf lease lease legacy lens letter level lexicon library license life limit limitrange line link list
	listener load loadbalancer loaf lobby location lock locus log logic logo loop loss lunch lynx mac machine machineclass
	machineconfig machinedeployment machinedrainrule machinehealthcheck machineidentity machineimage machinepool
	machinepoolmachine machinepooltemplate machineset machinestatus machinetemplate macro magnum mailbox maintenance man
	management manager manifest map mapping marathon market mask mass master match material matrix maximum measurement media
	medium member membership memory menu mercury mesh message metadata meter method metric metrics microservice migration minimum
	minion mirror mix mode model modification module money monitor motion mount mouse move movie multiplex museum namespace nat
	navigation nebula network networkclass networkinterface networkpolicy news node nodeclass nodeconfig nodegroup nodegroupset
	nodemetrics nodepool notification nucleus number oasis object observation octopus offer oneof operation operator opportunity
	optimum option orbit order organization origin output overlay override owner ox package page pair pallet parameter parameters
	parent parliament part partition party pass patch patchset path pause payload peer peering penalty people performance period
	permission persistentvolume person phase phenomenon photo pie pig pipe pipeline placement placementgroup plan planet plane
	platform plugin pod podium police policy poll pool popularity port portfolio portgroup position potato power powerups preference
	prefix premium preprovisioningimage preset price principal priority priorityclass privacy probe problem procedure process
	processor product profile program project promise promo prompt propagation property protocol provider providerserviceaccount
	provision provisioner proxy publication pulse purchase push quality quantity quantum query queue quiz quorum quota quote rack
	radius rage random range rate ratio read reboot rebalance receiver recipe record recovery redis redirect reference reflex
	refresh regex regime regimen region registry regulation relay release reload remediation remediationtemplate remedy replica
	replicaset replication repo report repository representation request requirement reserve reset resource resourceclaim
	resourcequota resourceset response restore restriction result retry return review revision rice ring role rolebinding rollout
	room root rosa roster rotation route router routetable rule ruleset run runtime runtimeclass runtimeextension safe salmon sample
	satellite scale scalingpolicy scenario schedule scheduler schema scheme scope score screen script search seat secret section
	sector security securitygroup seed segment selector self semaphore sequence series serum server serverclass serverprofile
	service serviceaccount serviceclass servicemonitor session set setting settings setup shadow shard share sheaf sheep shelf
	shift ship shoe shoot shop signal signature silo simulation sink site sketch skill slack slice slot snapshot socket software
	solution source space span spec species specification specimen spectrum speech speed sphere splash split spread spy ssh stack
	stadium staff stage standard star state statefulset station statistic status statuses stepping stimulus stock storage
	storageclass store story strategy stratum stream strength string stub studio style subject submission subnet subscription
	subset suffix suite summary supply surface surface swap switch symbol symposium sync synopsis syntax system table tag taint
	talisman target task tax taxi taxon team telemetry template tenancy tenant term terminal terminus territory test testbus tether
	text theme theory thesis thief thing thread threshold throttle ticket tier time timeout timer timeseries token tomato tool
	tooth topaz topic topology torus trace tracker traffic trait transaction transfer transform transition transport trash tree
	trial trigger trout truck trunk trust tuna tunnel turbo type uint union unit universe update upgrade uplink url usage use user
	userdata utility vacuum validation validator value variable variant vault vector velocity vendor verification version vertex
	veto victory video view violation virtualmachine virtualmachineclass virtualmachineimage virtualnetwork vision vlan vm
	volume volumeattachment volumesnapshotclass vortex vpc vpn vrf wallet waltz warehouse watch wave webhook weight wharf wheel wife
	window wish witness wolf woman word worker workerpool workflow workload workspace world wrapper yard year yield zebra zero
	zone zoo`

// judge is a program that pluralises each line of its input as Cluster API does.
const judge = `package main

import (
	"bufio"
	"fmt"
	"os"

	"github.com/gobuffalo/flect"
)

func main() {
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		fmt.Println(flect.Pluralize(in.Text()))
	}
}
`

// Cluster API finds a CRD under the name that flect makes, or not at all. flect is run in a module of its own, because
// nothing else here needs it.
func TestCRDName_AgreesWithTheLibraryThatClusterAPIUses(t *testing.T) {
	var kinds []string
	for word := range strings.FieldsSeq(kindEndings) {
		kinds = append(kinds, word, "example"+word)
	}
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "main.go"), []byte(judge), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go.mod"),
		[]byte("module judge\n\ngo 1.26\n\nrequire github.com/gobuffalo/flect v1.0.3\n"), 0o600))
	cmd := exec.CommandContext(t.Context(), "go", "run", ".")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod", "CGO_ENABLED=0")
	cmd.Stdin = strings.NewReader(strings.Join(kinds, "\n"))
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, stderr.String())

	want := strings.Fields(string(out))
	got := make([]string, 0, len(kinds))
	for _, kind := range kinds {
		got = append(got, strings.TrimSuffix(contract.CRDName(schema.GroupKind{Group: "g", Kind: kind}), ".g"))
	}
	t.Logf("%d kinds", len(kinds))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("plurals (-flect +ours):\n%s", diff)
	}
}
