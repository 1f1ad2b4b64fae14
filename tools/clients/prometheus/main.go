// Reads what Prometheus would scrape on stdin: with Prometheus' own parser, and with the rules of `promtool check metrics`.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
)

func main() {
	body, err := io.ReadAll(os.Stdin)
	if err != nil {
		fail(err)
	}
	parser, err := textparse.New(body, "text/plain; version=0.0.4", labels.NewSymbolTable(), textparse.ParserOptions{})
	if err != nil {
		fail(err)
	}
	series := 0
	for {
		entry, err := parser.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			fail(err)
		}
		if entry == textparse.EntrySeries {
			series++
		}
	}
	problems, err := promlint.New(bytes.NewReader(body)).Lint()
	if err != nil {
		fail(err)
	}
	for _, problem := range problems {
		fmt.Println(problem.Metric, problem.Text)
	}
	if series == 0 || len(problems) > 0 {
		fail(fmt.Errorf("%d series, %d problems", series, len(problems)))
	}
	fmt.Println("ok", series)
}

func fail(err error) {
	fmt.Println(err)
	os.Exit(1)
}
