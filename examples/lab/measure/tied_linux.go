package measure

import (
	"os/exec"
	"syscall"
)

// Tie makes a process that is not started yet end with this one, even if this one is killed.
func Tie(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
