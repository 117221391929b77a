module rollouts.dev/tests/node/apps

go 1.26.0
