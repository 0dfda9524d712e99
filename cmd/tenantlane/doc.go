// Command tenantlane is the command line of TenantLane. It holds flags,
// environment, config file and printing; what a command does is decided in the
// packages that it calls.
//
//	args, environment, config file ──▶ settings (merged, each value with its source)
//	                                        │
//	                    root.go ──▶ newXCommand(e) ──▶ internal/x, partitioner, consumer, …
//	                                        │
//	             stdout: the answer (text, or JSON alone) · stderr: errors, logs, progress
//
// # Adding a command
//
// One file, named after the command, with one function:
//
//	func newRouteCommand(e *env) *cobra.Command {
//		var kafka kafkaFlags                 // --brokers, --tls…, --sasl…
//		var table tableFlags                 // --table, --table-topic
//		var output outputFlags               // --format text|json
//		cmd := &cobra.Command{
//			Use:     "route TENANT…",
//			Short:   "Show where tenants go",
//			Example: "  tenantlane route --table routing.yaml acme-corp",
//			Args:    cobra.MinimumNArgs(1),
//			RunE: func(cmd *cobra.Command, args []string) error {
//				…
//				return e.printJSON(row)
//			},
//		}
//		kafka.register(cmd.Flags())
//		table.register(cmd.Flags(), &kafka)
//		output.register(cmd.Flags())
//		return cmd
//	}
//
// and one line in root.go's list. The rest comes by itself: every flag can be
// set by TENANTLANE_<FLAG> and by the config file, unknown keys are refused,
// and `config print route` shows the merged values. A command with
// sub-commands is made by group(…), so that a wrong sub-command is an error.
//
// Rules for a command:
//
//   - It writes answers to e.stdout and nothing else there; with --format json
//     that is one object, or one per line for a stream.
//   - It returns an error and never prints one. usagef (exit 2), answerNo
//     (exit 1) and kafkaError (exit 3) say how the process ends; everything
//     else is classified by exitCode. One error becomes one line on stderr
//     which says what failed, where, and what to do.
//   - It ends soon after its context is canceled, whatever it waits for.
//   - A command that runs until it is told to stop calls service(cmd).
//
// # Exit codes
//
//	0    done
//	1    the answer is "no": a check failed, something fires, a guarantee broken
//	2    usage or configuration, or a file of this machine that cannot be read or written
//	3    cannot reach, see or use Kafka, or a worker that is asked
//	130  interrupted
//
// Ctrl-C (SIGINT) always ends in 130, for a person stopped it. SIGTERM is how
// a supervisor ends a service: a service that drained in time exits 0, any
// other command was cut short and exits 130. A second signal stops at once
// with 130, without draining; at-least-once delivery covers what was in flight.
// The same signal within 100 ms is not a second one: timeout(1) sends it twice.
//
// # What may be changed inside
//
// Everything: nothing imports this package. Flag names, JSON fields and exit
// codes are read by people's scripts and stay.
package main
