package store

import "errors"

// ErrRevision says that a table's revision does not follow the current one:
// another writer was faster, or the revision was not raised.
var ErrRevision = errors.New("routing table revision conflict")
