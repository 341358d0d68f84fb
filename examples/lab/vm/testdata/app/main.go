// Command app is what pods of the test run: "app serve" is ready as soon as it listens, and without an argument it is a pause container.
package main

import (
	"fmt"
	"net"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM)
	if len(os.Args) > 1 {
		listener, err := net.Listen("tcp", ":8080")
		if err != nil {
			fmt.Fprintln(os.Stderr, "app:", err)
			os.Exit(1)
		}
		go accept(listener)
	}
	<-end
	_ = os.WriteFile("/dev/termination-log", []byte("ended as it was asked to"), 0o600)
}

func accept(listener net.Listener) {
	for {
		connection, err := listener.Accept()
		if err != nil {
			return
		}
		_ = connection.Close()
	}
}
