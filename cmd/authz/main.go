// Command authz is a rate-limit service for nginx's auth_request.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/alecthomas/kong"

	"authz/internal/buildinfo"
	"authz/limits"
)

// commands is the command line: flags over AUTHZ_* variables over defaults.
type commands struct {
	Serve   serveCmd   `cmd:"" help:"Answer checks." set:"without=; without it counts stay in this process"`
	Check   checkCmd   `cmd:"" help:"Say whether limits files are right: exit 0 if so, 1 with all that is wrong."`
	Explain explainCmd `cmd:"" help:"Say which rules meet a request, and whose buckets it charges."`
	Compile compileCmd `cmd:"" help:"Write the limits as the canonical JSON that the OpenResty pack reads."`
	Replay  replayCmd  `cmd:"" help:"Run access logs through the limits: what would have been refused, to whom, and when."`
	Scripts scriptsCmd `cmd:"" help:"The Redis scripts."`
	Doctor  doctorCmd  `cmd:"" set:"without=" help:"Say what a Redis lacks that authz needs: exit 0 if nothing, 1 with all that is wrong."`
	Prove   proveCmd   `cmd:"" help:"Attack a limit of a running set-up, and say whether it holds: exit 0 if so, 1 if not."`
	Get     getCmd     `cmd:"" set:"without=" help:"Show what a bucket holds now."`
	Reset   resetCmd   `cmd:"" set:"without=" help:"Let somebody in again: delete a bucket, with --yes."`
	Top     topCmd     `cmd:"" help:"Show who is refused most."`
	Ready   readyCmd   `cmd:"" help:"Ask a running authz serve whether it serves: exit 0 if so, 1 if not."`
	Snippet snippetCmd `cmd:"" help:"Write the nginx configuration for limits files."`
	Lint    lintCmd    `cmd:"" help:"Say what in an nginx configuration bypasses a check or spoils its answer: exit 0 if nothing, 1 with all of it."`
	Version versionCmd `cmd:"" help:"Print the version."`

	Man         manFlag          `hidden:"" env:"-" help:"Write the man page."`
	VersionFlag kong.VersionFlag `name:"version" help:"Print the version." env:"-"`
}

// console is what a command reads and writes.
type console struct {
	in       io.Reader
	out, err io.Writer
}

// loadLimits loads limits files. What is wrong with them has been said then, a line each.
func (c *console) loadLimits(prefix string, paths []string) (*limits.Set, error) {
	// A large file needs ten times its set to be read: the collector keeps up with it.
	defer debug.SetGCPercent(debug.SetGCPercent(25))
	set, err := limits.Load(prefix, paths...)
	if err != nil {
		fmt.Fprintln(c.err, err)
		return nil, exit(1)
	}
	return set, nil
}

// exit ends the process with this code; all there was to say has been said.
type exit int

func (e exit) Error() string { return fmt.Sprintf("exit %d", int(e)) }

func main() {
	os.Exit(run(os.Args[1:], &console{os.Stdin, os.Stdout, os.Stderr}))
}

// run is the process: 0 is well, 1 is not, 2 is a command line that says nothing we know.
func run(args []string, c *console) int {
	ctx, err := parse(args, &commands{}, c)
	if err != nil {
		text, command := misused(err)
		fmt.Fprintf(c.err, "authz: %s; see %s --help\n", text, command)
		return 2
	}
	err = ctx.Run()
	var code exit
	switch {
	case err == nil:
		return 0
	case errors.As(err, &code):
		return int(code)
	}
	fmt.Fprintf(c.err, "authz: %v\n", err)
	return 1
}

// parse reads the command line.
func parse(args []string, into *commands, c *console) (*kong.Context, error) {
	parser, err := kong.New(into, kong.Name("authz"), kong.UsageOnError(), kong.DefaultEnvars("AUTHZ"),
		kong.Description("Rate limits for nginx auth_request."), kong.Writers(c.out, c.err), kong.Bind(c), kong.Vars{"version": buildinfo.Text()},
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}))
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return parser.Parse(args)
}

// misused says what is wrong with a command line, and of which command it is.
func misused(err error) (text, command string) {
	text, command = err.Error(), "authz"
	var wrong *kong.ParseError
	if !errors.As(err, &wrong) || wrong.Context == nil {
		return text, command
	}
	node := wrong.Context.Selected()
	if node == nil {
		node = wrong.Context.Model.Node
	}
	if strings.HasPrefix(text, "expected one of ") { // the first five, says kong
		var names []string
		for _, child := range node.Children {
			names = append(names, strconv.Quote(child.Name))
		}
		text = "expected one of " + strings.Join(names, ", ")
	}
	return text, node.FullPath()
}
