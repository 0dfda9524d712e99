package kafka

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// orphanEnv makes the test binary hold a child process, print its id and wait
// to be killed.
const orphanEnv = "TENANTLANE_TEST_HOLD_CHILD"

func TestMain(m *testing.M) {
	if log := os.Getenv(orphanEnv); log != "" {
		n := &node{id: 1, java: []string{"sleep", "60"}, log: log}
		if err := n.start(); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println(n.pid())
		n.owner.Wait()
		return
	}
	goleak.VerifyTestMain(m)
}
