// Package stale reads a quarantine topic and writes what lies in it to where its
// tenants are now: what `tenantlane stale` does.
package stale
