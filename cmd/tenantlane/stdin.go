package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"strings"
	"sync"
)

// inputLine is a line of stdin without its end, or why there are no more.
type inputLine struct {
	text string
	err  error
}

// scanLines reads lines in the background, since a read of stdin cannot be
// interrupted: a command that is canceled leaves it behind and ends. The
// channel is closed at the end of the input.
func scanLines(ctx context.Context, in io.Reader) <-chan inputLine {
	lines := make(chan inputLine, 256)
	send := func(line inputLine) {
		select {
		case lines <- line:
		case <-ctx.Done():
		}
	}
	var reader sync.WaitGroup
	reader.Go(func() {
		defer close(lines)
		buffered := bufio.NewReader(in)
		for ctx.Err() == nil {
			text, err := buffered.ReadString('\n')
			if text != "" {
				send(inputLine{text: strings.TrimRight(text, "\r\n")})
			}
			if err != nil && !errors.Is(err, io.EOF) {
				send(inputLine{err: err})
			}
			if err != nil {
				return
			}
		}
	})
	return lines
}
