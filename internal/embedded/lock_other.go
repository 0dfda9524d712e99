//go:build !unix

package embedded

import "os"

// lockDir only makes the directory: there is no lock here that ends with the
// process.
func lockDir(dir string) (unlock func() error, err error) {
	return func() error { return nil }, os.MkdirAll(dir, 0o750)
}
