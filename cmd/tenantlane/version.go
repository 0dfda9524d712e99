package main

import (
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// buildVersion is set by the release build (-ldflags "-X main.buildVersion=v1.2.3").
var buildVersion string

type versionInfo struct {
	Version  string `json:"version"`
	Revision string `json:"revision"`
	Modified bool   `json:"modified"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func newVersionCommand(e *env) *cobra.Command {
	var output outputFlags
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Print the version of this binary",
		Example: "  tenantlane version --format json",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			info := readVersion()
			if output.json() {
				return e.printJSON(info)
			}
			return e.printf("tenantlane %s (%s, %s)\n", info.Version, info.Go, info.Platform)
		},
	}
	output.register(cmd.Flags())
	return cmd
}

// readVersion takes what the Go linker recorded; a release build may override
// the version.
func readVersion() versionInfo {
	info := versionInfo{Version: "(devel)", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if build, ok := debug.ReadBuildInfo(); ok {
		if build.Main.Version != "" {
			info.Version = build.Main.Version
		}
		for _, s := range build.Settings {
			switch s.Key {
			case "vcs.revision":
				info.Revision = s.Value
			case "vcs.modified":
				info.Modified = s.Value == "true"
			}
		}
	}
	if buildVersion != "" {
		info.Version = buildVersion
	}
	return info
}
