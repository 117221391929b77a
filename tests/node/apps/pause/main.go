// pause holds a pod's namespaces open, as the image of that name does, and reaps what is left to it.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGCHLD)
	for one := range signals {
		if one != syscall.SIGCHLD {
			return
		}
		for {
			if id, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); id <= 0 || err != nil {
				break
			}
		}
	}
	os.Exit(1)
}
