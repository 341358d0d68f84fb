// Command userdata renders first-boot data with package machine/userdata, and has the tools that read such data check it.
//
//	go run ./examples/userdata render -system flatcar -server https://192.0.2.1:6443 -ca ca.crt -token-file token
//	go run ./examples/userdata all FOLDER   # every combination that the package promises
//	go run ./examples/userdata verify       # by the tools that read it, and a scratch root; make verify-userdata installs them
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"

	"github.com/machinist-dev/machinist/examples/command"
)

const usage = `userdata renders the data for the first boot of a machine.

  userdata render -system ubuntu-24.04 -server https://192.0.2.1:6443 -ca ca.crt -token-file token
  userdata all FOLDER
  userdata verify

render prints one document; -help lists its flags. all writes every combination of system, Kubernetes version, IP family and
architecture, and partly filled configurations, to a folder. verify checks all of them with cloud-init, shellcheck, netplan,
NetworkManager and systemd-networkd, and runs the scripts in a scratch root; it needs root.
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	code := command.Run("userdata", command.Codes{Done: 0, Lost: 1}, os.Stdout, os.Stderr, func(out io.Writer) int {
		return run(ctx, os.Args[1:], out, os.Stderr)
	})
	stop()
	os.Exit(code)
}

// run returns the exit code: 1 after a failure, 2 for wrong arguments.
func run(ctx context.Context, args []string, out, errOut io.Writer) int {
	command := strings.Join(args[:min(len(args), 1)], "")
	var err error
	switch {
	case command == "render":
		err = render(args[1:], out, errOut)
	case command == "all" && len(args) == 2:
		err = writeAll(args[1], out)
	case command == "verify" && len(args) == 1:
		err = verify(ctx, out)
	default:
		fmt.Fprint(errOut, usage)
		return 2
	}
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		fmt.Fprintf(errOut, "userdata: %v\n", err)
		return 1
	}
	return 0
}
