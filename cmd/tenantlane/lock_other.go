//go:build !unix

package main

import "os"

// lockFile does nothing where files cannot be locked.
func lockFile(*os.File) error { return nil }
