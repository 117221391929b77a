// Package ext stands in for a module that Traefik's own go.mod takes from a folder which its published module leaves out: the
// places where others may extend its dynamic configuration. Nobody does here.
package ext

// HTTP extends the HTTP configuration by nothing.
type HTTP struct{}

// Router extends a router by nothing.
type Router struct{}
