package deliver

import "syscall"

// endWithWorker has the command killed when the worker is, however that ends:
// its successor gets the record again, and the tenant's next ones. What the
// command started stays.
func endWithWorker(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }
