package lagwatch

import (
	"crypto/sha256"
	"encoding/hex"
	"math"
	"unicode"
	"unicode/utf8"
)

// printable is a tenant as people read it: itself when it is printable text,
// else "0x" and its hex.
func printable(tenant string) string {
	if !utf8.ValidString(tenant) || tenant == "" {
		return "0x" + hex.EncodeToString([]byte(tenant))
	}
	for _, r := range tenant {
		if !unicode.IsPrint(r) {
			return "0x" + hex.EncodeToString([]byte(tenant))
		}
	}
	return tenant
}

// pseudonym stands for a tenant whose name must not leave.
func pseudonym(tenant string) string {
	sum := sha256.Sum256([]byte(tenant))
	return "sha256:" + hex.EncodeToString(sum[:8])
}

// wilsonLower is the lower bound of the Wilson score interval (95 %) for a
// share of k in n (E. B. Wilson, 1927): what the share is at least, however
// small the sample.
func wilsonLower(share float64, n int) float64 {
	if n <= 0 {
		return 0
	}
	const z = 1.96
	count := float64(n)
	center := share + z*z/(2*count)
	margin := z * math.Sqrt((share*(1-share)+z*z/(4*count))/count)
	return max((center-margin)/(1+z*z/count), 0)
}
