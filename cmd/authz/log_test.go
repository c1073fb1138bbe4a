package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
)

// A pipe that is full, since nobody reads the log, stops nobody who logs.
func TestALogThatNobodyReadsStopsNoAnswer(t *testing.T) {
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	defer out.Close() // which ends what is being written
	log, queue := new(logFlags).queued(in)
	for queue.lost.Load() == 0 {
		log.Info(strings.Repeat("x", 1000))
	}
	for range 10 * logRoom {
		log.Info("more")
	}
}

// What is lost is told, after what had room.
func TestALogSaysHowManyLinesAreLost(t *testing.T) {
	out, in := io.Pipe()
	log, queue := new(logFlags).queued(in)
	for i := range logRoom + 10 {
		log.Info("line", "i", i)
	}
	go func() {
		queue.end()
		in.Close()
	}()
	n, last := 0, ""
	for lines := bufio.NewScanner(out); lines.Scan(); n++ {
		last = lines.Text()
	}
	if lost := logRoom + 10 - (n - 1); !strings.HasSuffix(last, fmt.Sprintf("msg=\"log lines are lost: they came faster than they were read\" lines=%d", lost)) || lost < 9 {
		t.Errorf("%d lines, the last %s", n, last)
	}
}
