package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

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
		b, err := json.MarshalIndent(value, "", "  ")
		if err != nil {
			return err
		}
		_, err = w.Write(append(plainJSON(b), '\n'))
		return err
	}
	return printTable(w, rows)
}

// printTable writes the table that rows fills, without blanks at the ends of lines.
func printTable(w io.Writer, rows func(*table)) error {
	var text bytes.Buffer
	t := &table{tabwriter.NewWriter(&text, 0, 4, 2, ' ', 0)}
	rows(t)
	if err := t.w.Flush(); err != nil {
		return err
	}
	for line := range bytes.Lines(text.Bytes()) {
		if _, err := fmt.Fprintf(w, "%s\n", bytes.TrimRight(line, " \n")); err != nil {
			return err
		}
	}
	return nil
}

// plain is a text as it may stand in a cell: names come from whoever may join a group, and what is not printable could tell
// the terminal to do something, or break the table. It is shown as in a Go string.
func plain(s string) string {
	if strings.IndexFunc(s, unprintable) < 0 && utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, size := utf8.DecodeRuneInString(s)
		if r == utf8.RuneError && size == 1 || unprintable(r) {
			quoted := strconv.Quote(s[:size])
			b.WriteString(quoted[1 : len(quoted)-1])
		} else {
			b.WriteString(s[:size])
		}
		s = s[size:]
	}
	return b.String()
}

func unprintable(r rune) bool { return !unicode.IsPrint(r) }

// plainJSON escapes what is not printable in the strings of a JSON text; the text means the same.
func plainJSON(b []byte) []byte {
	out := make([]byte, 0, len(b))
	for len(b) > 0 {
		r, size := utf8.DecodeRune(b)
		switch {
		case r == '\n' || !unprintable(r):
			out = append(out, b[:size]...)
		case r > 0xFFFF:
			high, low := utf16.EncodeRune(r)
			out = fmt.Appendf(out, `\u%04x\u%04x`, high, low)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
		b = b[size:]
	}
	return out
}

// table is text in columns.
type table struct{ w *tabwriter.Writer }

func (t *table) row(cells ...any) {
	texts := make([]string, len(cells))
	for i, c := range cells {
		texts[i] = plain(fmt.Sprint(c))
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
	return printTable(w, func(t *table) {
		t.row("NAME", "DEFAULT", "ALLOWED", "MEANING")
		for _, s := range config.Settings() {
			t.row(s.Name, orDash(s.Default), s.Allowed(), s.Help)
		}
	})
}
