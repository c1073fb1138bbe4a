package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"authz/internal/plainjson"
	"authz/internal/replay"
	"authz/internal/replay/accesslog"
	"authz/nginx"
)

type replayCmd struct {
	limitsFlags
	Against    []string      `help:"Limits file or folder to compare with, such as those in force; may be repeated." sep:"none" placeholder:"FILE|DIR"`
	Format     string        `help:"combined, common, json, ltsv, or the text of a log_format; without it, what the first lines of each log are." placeholder:"FORMAT"`
	FormatFrom string        `help:"nginx.conf whose log_format it is, with its name if there are several." placeholder:"FILE[:NAME]"`
	Reorder    time.Duration `help:"How much too late a line may come and still be put in its place. One that is more than this ahead is from the future and left out, unless the log goes on from there: half of the next 100 requests, or of those that there are." default:"5s"`
	Suggest    *replay.Share `help:"Suggest the smallest numbers that would have refused at most this share of the keys, such as 0.1%." placeholder:"SHARE"`
	Headroom   replay.Share  `help:"How much more than the smallest to suggest, such as 20%." default:"0%"`
	JSON       bool          `name:"json" help:"Write the report as JSON." xor:"as"`
	HTML       string        `name:"html" help:"Write the report to this file, with pictures, too." xor:"as" placeholder:"FILE"`
	Logs       []string      `arg:"" name:"access_log" help:"Access logs, plain or gzip; - is the input. Several are merged by their times."`

	format *accesslog.Format
}

// Validate also reads the format.
func (f *replayCmd) Validate() (err error) {
	switch {
	case f.Reorder < 0:
		return fmt.Errorf("--reorder=%v: want a time, such as 5s, or 0s", f.Reorder)
	case f.Suggest != nil && *f.Suggest > replay.Whole:
		return fmt.Errorf("--suggest=%v: want 0%% to 100%%", *f.Suggest)
	case f.Suggest == nil && f.Headroom > 0:
		return errors.New("--headroom: want --suggest with it")
	case f.Format != "" && f.FormatFrom != "":
		return errors.New("--format and --format-from: want one of them")
	case f.Format != "":
		if f.format, err = accesslog.ParseFormat(f.Format); err != nil {
			return fmt.Errorf("--format: %w", err)
		}
	}
	seen := map[string]bool{}
	for _, name := range f.Logs {
		if seen[name] {
			return fmt.Errorf("%s: named twice, want each log once", name)
		}
		seen[name] = true
	}
	return nil
}

func (f *replayCmd) Run(c *console) error {
	if err := f.mayWriteHTML(); err != nil {
		return err
	}
	o := replay.Options{Format: f.format, ReorderUS: f.Reorder.Microseconds()}
	if f.Suggest != nil {
		o.Suggest = &replay.Suggest{Keys: *f.Suggest, Headroom: f.Headroom}
	}
	var err error
	if f.FormatFrom != "" {
		if o.Format, err = formatFrom(f.FormatFrom); err != nil {
			return fmt.Errorf("--format-from: %w", err)
		}
	}
	if o.Limits, err = c.loadLimits(f.RedisPrefix, f.Limits); err != nil {
		return err
	}
	if len(f.Against) > 0 {
		if o.Against, err = c.loadLimits(f.RedisPrefix, f.Against); err != nil {
			return err
		}
	}
	report, err := f.replay(c, o)
	if err != nil {
		return err
	}
	return f.write(c, report)
}

// replay opens the logs and runs them.
func (f *replayCmd) replay(c *console, o replay.Options) (*replay.Report, error) {
	p := newProgress(c.err)
	var logs []replay.Log
	for _, name := range f.Logs {
		if name == "-" {
			logs = append(logs, replay.Log{Name: "-", From: p.of(c.in, 0)})
			continue
		}
		file, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer file.Close()
		info, err := file.Stat()
		if err != nil {
			return nil, err
		}
		if info.IsDir() {
			return nil, fmt.Errorf("%s: a folder, want an access log", name)
		}
		logs = append(logs, replay.Log{Name: name, From: p.of(file, info.Size())})
	}
	defer p.show()()
	return replay.Run(o, logs)
}

func (f *replayCmd) write(c *console, report *replay.Report) error {
	for _, text := range report.Warnings {
		fmt.Fprintf(c.err, "authz: WARNING: %s\n", text)
	}
	if f.JSON {
		out := plainjson.NewEncoder(c.out)
		out.SetIndent("", "  ")
		return out.Encode(report)
	}
	if err := report.WriteText(c.out); err != nil || f.HTML == "" {
		return err
	}
	file, err := os.Create(f.HTML)
	if err != nil {
		return err
	}
	return errors.Join(report.WriteHTML(file), file.Close())
}

// mayWriteHTML is an error if --html names a file that is no report of ours, such as a log, or a place where none can be.
func (f *replayCmd) mayWriteHTML() error {
	if f.HTML == "" {
		return nil
	}
	if f.HTML == "-" {
		return errors.New("--html=-: want a file")
	}
	file, err := os.Open(f.HTML)
	if errors.Is(err, os.ErrNotExist) {
		info, err := os.Stat(filepath.Dir(f.HTML))
		if err != nil || !info.IsDir() {
			return fmt.Errorf("--html=%s: there is no folder %s, want one that exists", f.HTML, filepath.Dir(f.HTML))
		}
		return nil
	}
	var text []byte
	if err == nil {
		text, err = io.ReadAll(io.LimitReader(file, 4096)) // its head has the title
		file.Close()
	}
	switch {
	case err != nil:
		return fmt.Errorf("--html=%w", err)
	case len(text) > 0 && !bytes.Contains(text, []byte("<title>authz replay</title>")):
		return fmt.Errorf("--html=%s: this file is there, and no report of authz replay: want another name", f.HTML)
	}
	return nil
}

// formatFrom reads FILE, or FILE:NAME.
func formatFrom(from string) (*accesslog.Format, error) {
	file, name := from, ""
	if _, err := os.Stat(file); errors.Is(err, os.ErrNotExist) {
		if colon := strings.LastIndexByte(from, ':'); colon > 0 {
			file, name = from[:colon], from[colon+1:]
		}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	conf, err := nginx.Parse(file, string(text))
	if err != nil {
		return nil, err
	}
	format, err := accesslog.FormatFrom(conf, name)
	if err != nil { // perhaps in a file that it includes, if they are here
		if conf, lacks := nginx.Read(file); lacks == nil {
			format, err = accesslog.FormatFrom(conf, name)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return format, nil
}
