// dies ends at once on SIGTERM, as many programs do that were written without Kubernetes in mind: what it was answering is cut,
// and whoever still connects is refused.
package main

import (
	"os"
	"os/signal"
	"syscall"

	"rollouts.dev/tests/node/apps/serve"
)

func main() {
	told := make(chan os.Signal, 1)
	signal.Notify(told, syscall.SIGTERM) // process 1 of a container would not be ended by it otherwise
	go func() {
		<-told
		os.Exit(143)
	}()
	serve.New().Run()
}
