package cluster

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// ports are the TCP ports of one control plane on 127.0.0.1.
type ports struct {
	etcd, etcdPeer, apiServer, controllerManager, scheduler, kwok int
}

// The range lies below those from which Linux (from 32768), macOS and BSD (from 49152) take the local port of an outgoing
// connection, because a component must find its port free again when it is restarted.
const (
	lowestPort  = 15000
	highestPort = 32000
	portTries   = 1000
)

// freePorts picks unused ports. All are held until the last one is picked, so that none is
// picked twice; between then and the component's start another process could take one, and the component's
// log would have that.
func freePorts() (ports, error) {
	var p ports
	want := []*int{&p.etcd, &p.etcdPeer, &p.apiServer, &p.controllerManager, &p.scheduler, &p.kwok}
	held := make([]net.Listener, 0, len(want))
	defer func() {
		for _, l := range held {
			_ = l.Close()
		}
	}()
	for try := 0; len(held) < len(want); try++ {
		if try == portTries {
			return ports{}, fmt.Errorf("found no %d free ports on 127.0.0.1 between %d and %d", len(want), lowestPort, highestPort)
		}
		port := lowestPort + rand.IntN(highestPort-lowestPort)
		l, err := net.Listen("tcp", hostPort(port))
		if err != nil {
			continue
		}
		*want[len(held)] = port
		held = append(held, l)
	}
	return p, nil
}

func hostPort(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
