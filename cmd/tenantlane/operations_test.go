package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Every command line of the operators' pages names a command and flags that
// exist: it is read when there is no time to try.
func TestOperationsCommandsParse(t *testing.T) {
	for name, least := range map[string]int{"operations.md": 15, "lagwatch.md": 8} {
		t.Run(name, func(t *testing.T) {
			page, err := os.ReadFile(filepath.Join(projectRoot, "docs", name))
			if err != nil {
				t.Fatal(err)
			}
			checked := 0
			for _, block := range regexp.MustCompile("(?ms)^```sh\n(.*?)^```$").FindAllStringSubmatch(string(page), -1) {
				for line := range strings.Lines(block[1]) {
					line = regexp.MustCompile(`'[^']*'`).ReplaceAllString(strings.TrimSpace(line), "quoted")
					args := strings.Fields(line)
					if len(args) > 1 && args[0] == "docker" {
						continue
					}
					if len(args) < 2 || args[0] != "tenantlane" {
						t.Errorf("%q is no command of ours", line)
						continue
					}
					checked++
					if err := parses(args[1:]); err != nil {
						t.Errorf("%s: %v", line, err)
					}
				}
			}
			if checked < least {
				t.Errorf("%d command lines on the page, want at least %d", checked, least)
			}
		})
	}
}
