package gobuild

import (
	"os/exec"
	"runtime"
	"syscall"
)

// runTied runs the go command and interrupts it when this process dies, because a build has no pipe that would end it.
// The kernel sends that signal when the starting *thread* ends, hence the lock.
func runTied(cmd *exec.Cmd, read func()) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGINT}
	if err := cmd.Start(); err != nil {
		return err
	}
	read()
	return cmd.Wait()
}
