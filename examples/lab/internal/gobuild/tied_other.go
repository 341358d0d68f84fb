//go:build !linux

package gobuild

import "os/exec"

// runTied runs the go command. On this system a build goes on to its end when this process is killed.
func runTied(cmd *exec.Cmd, read func()) error {
	if err := cmd.Start(); err != nil {
		return err
	}
	read()
	return cmd.Wait()
}
