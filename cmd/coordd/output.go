package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/coordd/coordd/config"
	"github.com/coordd/coordd/web"
)

// adminFlags are the flags of the commands that ask a running node.
type adminFlags struct {
	address string
	output  string
}

func (f *adminFlags) register(c *cobra.Command) {
	c.Flags().StringVar(&f.address, "admin", "127.0.0.1:9644", "admin port of any node, host:port")
	c.Flags().StringVarP(&f.output, "output", "o", "table", "table for people, json for scripts")
}

func (f *adminFlags) client() (web.Client, error) {
	if f.output != "table" && f.output != "json" {
		return web.Client{}, usageError(&config.Error{Setting: "--output", Value: f.output, Allowed: "table or json"})
	}
	return web.Client{Address: f.address}, nil
}

// print writes the value as JSON, or as the table that rows fills.
func (f *adminFlags) print(w io.Writer, value any, rows func(*table)) error {
	if f.output == "json" {
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", "  ")
		return encoder.Encode(value)
	}
	t := &table{tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)}
	rows(t)
	return t.w.Flush()
}

// table is text in columns.
type table struct{ w *tabwriter.Writer }

func (t *table) row(cells ...any) {
	texts := make([]string, len(cells))
	for i, c := range cells {
		texts[i] = fmt.Sprint(c)
	}
	_, _ = fmt.Fprintln(t.w, strings.Join(texts, "\t")) // what cannot be written is told by Flush
}

// orNone writes -1 and empty lists for people.
func orNone(n int32) string {
	if n < 0 {
		return "none"
	}
	return fmt.Sprint(n)
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func list(items []string) string {
	if len(items) == 0 {
		return "-"
	}
	return strings.Join(items, ",")
}

func printSettings(w io.Writer) error {
	t := &table{tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)}
	t.row("NAME", "DEFAULT", "ALLOWED", "MEANING")
	for _, s := range config.Settings() {
		def := s.Default
		if def == "" {
			def = "-"
		}
		t.row(s.Name, def, s.Allowed(), s.Help)
	}
	return t.w.Flush()
}
